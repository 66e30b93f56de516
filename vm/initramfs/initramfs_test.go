package initramfs

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

// tree is a small guest with one file of each sort.
func tree(t *testing.T) []File {
	t.Helper()
	host := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(host, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := host + "-link"
	if err := os.Symlink(host, link); err != nil {
		t.Fatal(err)
	}
	return []File{
		{Path: "/usr/bin/program", Mode: 0o755, Host: link},
		{Path: "/init", Mode: 0o755, Data: []byte("agent")},
		{Path: "/bisectd/job.json", Mode: 0o644, Data: []byte("{}")},
		{Path: "/empty", Mode: 0o4711},
		{Path: "/bin", Target: "usr/bin"},
	}
}

func write(t *testing.T, files []File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, files); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteReadBack(t *testing.T) {
	type member struct {
		Name    string
		Mode    cpio.FileMode
		Content string
	}
	var got []member
	r := cpio.NewReader(bytes.NewReader(write(t, tree(t))))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Guid != 0 {
			t.Errorf("%s: %v, %d:%d", h.Name, h.ModTime, h.Uid, h.Guid)
		}
		got = append(got, member{h.Name, h.Mode, string(content) + h.Linkname})
	}
	dir := cpio.FileMode(cpio.TypeDir | 0o755)
	want := []member{
		{"bin", cpio.TypeSymlink | 0o777, "usr/bin"},
		{"bisectd", dir, ""},
		{"bisectd/job.json", cpio.TypeReg | 0o644, "{}"},
		{"dev", dir, ""},
		{"dev/console", cpio.TypeChar | 0o600, ""},
		{"empty", cpio.TypeReg | 0o4711, ""},
		{"init", cpio.TypeReg | 0o755, "agent"},
		{"proc", dir, ""},
		{"run", dir, ""},
		{"sys", dir, ""},
		{"tmp", dir, ""},
		{"usr", dir, ""},
		{"usr/bin", dir, ""},
		{"usr/bin/program", cpio.TypeReg | 0o755, "#!/bin/sh\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestWriteCPIO asks the system's cpio, which reads what the kernel reads.
func TestWriteCPIO(t *testing.T) {
	program, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed (Debian package cpio)")
	}
	list := exec.Command(program, "-tv", "--quiet", "--numeric-uid-gid")
	list.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	list.Stdin = bytes.NewReader(write(t, tree(t)))
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"crw-------   1 0        0          5,   1 Jan  1  1970 dev/console\n",
		"lrwxrwxrwx   1 0        0               7 Jan  1  1970 bin -> usr/bin\n",
		"-rws--x--x   1 0        0               0 Jan  1  1970 empty\n",
		"-rwxr-xr-x   1 0        0              10 Jan  1  1970 usr/bin/program\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
	dir := t.TempDir()
	extract := exec.Command(program, "-i", "--quiet", "init", "usr/bin/program", "usr/bin", "usr")
	extract.Dir, extract.Stdin = dir, bytes.NewReader(write(t, tree(t)))
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "usr/bin/program")); string(text) != "#!/bin/sh\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	files := tree(t)
	first := write(t, files)
	slices.Reverse(files)
	if !bytes.Equal(first, write(t, files)) {
		t.Error("the order of the files changes the archive")
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct {
		name  string
		files []File
		want  string
	}{
		{"relative", []File{{Path: "init"}}, "clean absolute path"},
		{"not clean", []File{{Path: "/a/../init"}}, "clean absolute path"},
		{"root", []File{{Path: "/"}}, "clean absolute path"},
		{"twice", []File{{Path: "/a"}, {Path: "/a"}}, "two files"},
		{"console", []File{{Path: "/dev/console"}}, "two files"},
		{"file in a file", []File{{Path: "/a"}, {Path: "/a/b"}}, "both a file and a directory"},
		{"no such host file", []File{{Path: "/a", Host: "/no/such/file"}}, "no such file"},
		{"host directory", []File{{Path: "/a", Host: "/"}}, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Write(io.Discard, tt.files)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
