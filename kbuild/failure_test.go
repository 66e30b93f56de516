package kbuild

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	testSource  = "/cache/trees/0123456789abcdef/src"
	testObjects = "/cache/trees/0123456789abcdef/objects/fedcba9876543210/o"
)

// TestFailures diagnoses the output of make in testdata/failures/*.log.
func TestFailures(t *testing.T) {
	logs, err := filepath.Glob("testdata/failures/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, path := range logs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var kept strings.Builder
			out := newOutput(&kept, testSource, testObjects, nil)
			text := read(t, path)
			for i := range text { // the cuts between writes do not matter
				if _, err := out.Write([]byte(text[i : i+1])); err != nil {
					t.Fatal(err)
				}
			}
			out.close()
			if kept.String() != text {
				t.Error("the log is not what make printed")
			}
			got := fmt.Sprintf("%s: %s\n%d objects\n", out.failure.blame(), out.failure.line(), out.objects)
			golden := strings.TrimSuffix(path, ".log") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNames(t *testing.T) {
	const include = `In file included from include/linux/sched.h:12,
                 from kernel/fork.c:3:
include/linux/hrtimer.h:31:5: error: unknown type name 'ktim_t'
`
	const link = `ld: kernel/time/timer.o: in function ` + "`run_timers':" + `
timer.c:(.text+0x12): undefined reference to ` + "`expire'" + `
make[2]: *** [scripts/Makefile.vmlinux:34: vmlinux] Error 1
`
	const note = `kernel/fork.c:9:2: error: too few arguments to function 'arm'
include/linux/timer.h:7:5: note: declared here
`
	const rule = `make[4]: *** No rule to make target 'kernel/time/gone.o', needed by 'kernel/time/built-in.a'.  Stop.
`
	for _, test := range []struct {
		log, file string
		want      bool
	}{
		{include, "include/linux/hrtimer.h", true},
		{include, "kernel/fork.c", true},
		{include, "include/linux/sched.h", true},
		{include, "linux/sched.h", false},
		{include, "kernel/exit.c", false},
		{link, "kernel/time/timer.c", true},
		{link, "kernel/time/Makefile", true},
		{link, "kernel/timer.c", false},
		{note, "include/linux/timer.h", true},
		{rule, "kernel/time/Makefile", true},
		{rule, "kernel/Makefile", false},
	} {
		var d diagnosis
		for line := range strings.Lines(test.log) {
			d.add(strings.TrimSuffix(line, "\n"))
		}
		if got := d.names([]string{"README", test.file}); got != test.want {
			t.Errorf("%s in %q: %v", test.file, test.log, got)
		}
	}
}

// FuzzDiagnosis holds that there is always one short line to show, and that it
// comes from the log.
func FuzzDiagnosis(f *testing.F) {
	logs, err := filepath.Glob("testdata/failures/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var kept strings.Builder
		out := newOutput(&kept, testSource, testObjects, nil)
		fmt.Fprint(out, text)
		out.close()
		line := out.failure.line()
		if line == "" || strings.Contains(line, "\n") || len(line) > maxLine+len("...") {
			t.Errorf("line %q", line)
		}
		if out.failure.cause+out.failure.target == "" && out.failure.blame() == blame.Kernel {
			t.Error("the kernel is blamed for nothing")
		}
		out.failure.names([]string{"kernel/fork.c"})
	})
}
