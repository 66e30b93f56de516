package qemu

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bisectd/vm"
	"bisectd/vm/guest"
	"bisectd/vm/guest/proto"
	"bisectd/vm/initramfs"
)

// The kernel of the tests that boot one: a bzImage with a virtio console, and
// where that is a module, lib/modules/RELEASE.
const (
	kernelVariable  = "BISECTD_TEST_KERNEL"
	modulesVariable = "BISECTD_TEST_MODULES"
)

// kernelImage returns the bzImage to boot.
func kernelImage(t testing.TB) string {
	t.Helper()
	image := os.Getenv(kernelVariable)
	if image == "" {
		t.Skipf("%s is not set: give the path of a bzImage with a virtio console, and %s its lib/modules/RELEASE "+
			"if that is a module; \"make test\" fetches a packaged kernel and sets both", kernelVariable, modulesVariable)
	}
	if _, err := os.Stat(image); err != nil {
		t.Fatal(err)
	}
	return image
}

// realQEMU returns the installed QEMU.
func realQEMU(t testing.TB) *Launcher {
	t.Helper()
	l, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// agent builds the agent once, from the source at hand. The sources are read,
// so that the go command knows that results depend on them and does not take
// them from its cache when they have changed.
var agent = sync.OnceValues(func() ([]byte, error) {
	sources, err := filepath.Glob("../guest/*/*.go")
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		if _, err := os.ReadFile(source); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "bisectd/vm/guest/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

// initrd writes an initramfs with the agent, a job of steps, and a shell with
// its tools if there are steps.
func initrd(t testing.TB, steps ...proto.Step) string {
	t.Helper()
	init, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	var files []initramfs.File
	if dir := os.Getenv(modulesVariable); dir != "" {
		if files, err = initramfs.Modules(dir, initramfs.GuestModules...); err != nil {
			t.Fatal(err)
		}
	}
	if len(steps) > 0 {
		files = append(files, hostProgram(t, "sh")...)
		files = append(files, hostProgram(t, "sleep")...)
		files = append(files, hostProgram(t, "cat")...)
	}
	path := filepath.Join(t.TempDir(), "initrd")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	job := proto.Job{Version: proto.Version, ID: t.Name(), Settle: true, Steps: steps}
	slices.SortFunc(files, func(a, b initramfs.File) int { return strings.Compare(a.Path, b.Path) })
	files = slices.CompactFunc(files, func(a, b initramfs.File) bool { return a.Path == b.Path })
	if err := guest.Initramfs(f, init, job, files); err != nil {
		t.Fatal(err)
	}
	return path
}

// hostProgram returns a program of the host with the libraries it is linked with.
func hostProgram(t testing.TB, name string) []initramfs.File {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	files := []initramfs.File{{Path: "/bin/" + name, Mode: 0o755, Host: path}}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", path, err)
	}
	for _, field := range strings.Fields(string(out)) {
		if strings.HasPrefix(field, "/") {
			files = append(files, initramfs.File{Path: field, Mode: 0o755, Host: field})
		}
	}
	return files
}

// machine is a small machine under TCG with the kernel of the tests.
func machine(t testing.TB, vcpus int, initrd string) vm.Config {
	t.Helper()
	return vm.Config{
		Image: kernelImage(t), Initrd: initrd, VCPUs: vcpus, MemoryMiB: 256, Accel: vm.TCG, Dir: t.TempDir(),
		BootDeadline: 3 * time.Minute, RunDeadline: 3 * time.Minute,
	}
}

// repeat runs a boot's command in a shell's place and returns the records that
// it left in dir.
func repeat(t *testing.T, command []string, dir string) []proto.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, "result.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []proto.Record
	for r := proto.NewReader(f); ; {
		record, err := r.Read()
		if err == io.EOF {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
}
