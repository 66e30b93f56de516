package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bisectd/blame"
)

// The helpers are this test binary again, told by the environment what to do.
const (
	helperTask = "JOURNAL_TEST_HELPER"
	helperDir  = "JOURNAL_TEST_DIR"
)

func TestMain(m *testing.M) {
	tasks := map[string]func(dir string) error{"write": writeForever, "small disk": fillDisk, "read-only": openReadOnly}
	if task, ok := tasks[os.Getenv(helperTask)]; ok {
		if err := task(os.Getenv(helperDir)); err != nil {
			fmt.Println("error", blame.Of(err), err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func helper(t *testing.T, task, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperTask+"="+task, helperDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForever works through numbered boots, as a run does, and acknowledges
// each event on standard output once it is written.
func writeForever(dir string) error {
	ctx := context.Background()
	s, err := Open(dir)
	if err != nil {
		return err
	}
	r, err := s.Run(ctx, "killed")
	if err != nil {
		return err
	}
	console := filepath.Join(r.Dir(), "console.log")
	for i := 0; ; i++ {
		key := fmt.Sprint(i)
		done, err := r.Finished(ctx, "boot", key, nil)
		if err != nil || done {
			if err != nil {
				return err
			}
			continue
		}
		if err := r.Begin(ctx, "boot", key, nil); err != nil {
			return err
		}
		fmt.Println("begin", key)
		if err := os.WriteFile(console, []byte(strings.Repeat("console of "+key+"\n", 2000)), 0o600); err != nil {
			return err
		}
		sum, err := r.Artefact(ctx, console)
		if err != nil {
			return err
		}
		if err := r.End(ctx, "boot", key, sum); err != nil {
			return err
		}
		fmt.Println("end", key)
	}
}

// A run that is killed again and again, at any point, loses nothing that it
// has acknowledged and does nothing twice.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	var acknowledged []string
	for range 12 {
		cmd := helper(t, "write", dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + random.IntN(30) {
			if !lines.Scan() {
				t.Fatal("the helper ended by itself")
			}
			acknowledged = append(acknowledged, lines.Text())
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() { // acknowledged between the last line read and the kill
			acknowledged = append(acknowledged, lines.Text())
		}
		_ = cmd.Wait() // reports the kill
		checkKilled(t, dir, acknowledged)
	}
}

// checkKilled compares the log with what was acknowledged. Each kill may have
// hit between the write of an event and its acknowledgement.
func checkKilled(t *testing.T, dir string, acknowledged []string) {
	t.Helper()
	s, err := Open(dir)
	must(t, err)
	defer s.Close()
	r, err := s.Run(t.Context(), "killed") // the lock is free again
	must(t, err)
	defer r.Close()
	events, err := r.Events(t.Context())
	must(t, err)

	ends := map[string]int{}
	next := 0
	for _, e := range events {
		if next < len(acknowledged) && acknowledged[next] == fmt.Sprint(e.Phase, " ", e.Key) {
			next++
		}
		if e.Phase == End {
			ends[e.Key]++
		}
	}
	if next != len(acknowledged) {
		t.Fatalf("%q was acknowledged and is not in the log", acknowledged[next])
	}
	for key, count := range ends {
		if count != 1 {
			t.Errorf("boot %s was done %d times", key, count)
		}
		var sum string
		if _, err := r.Finished(t.Context(), "boot", key, &sum); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(r.ArtefactPath(sum))
		if err != nil || string(data) != strings.Repeat("console of "+key+"\n", 2000) {
			t.Fatalf("artefact of boot %s: %d bytes, %v", key, len(data), err)
		}
	}
}

// A second process is told which one has the run.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	r := take(t, open(t, dir), "killed")
	out, err := helper(t, "write", dir).Output()
	if err == nil || !strings.HasPrefix(string(out), "error user run killed is in use by another bisectd (process ") {
		t.Errorf("%q, %v", out, err)
	}
	must(t, r.Begin(t.Context(), "boot", "0", nil))
}

// inNamespace runs a helper that may mount file systems nobody else sees.
func inNamespace(t *testing.T, task string) string {
	t.Helper()
	cmd := helper(t, task, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Skipf("this host gives no user and mount namespaces: %v", err)
	}
	return string(out)
}

// fillDisk works on a disk of 512 KiB until it is full, frees some space and
// goes on.
func fillDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, err := s.Run(ctx, "r")
	if err != nil {
		return err
	}
	written := 0
	for err == nil {
		if err = r.Begin(ctx, "boot", fmt.Sprint(written), strings.Repeat("x", 1000)); err == nil {
			written++
		}
	}
	fmt.Println("event:", blame.Of(err), err)
	_, err = r.Artefact(ctx, "/proc/self/exe")
	fmt.Println("artefact:", blame.Of(err), err)
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := r.End(ctx, "boot", "last", nil); err != nil {
		return err
	}
	_, begun, err := r.Count(ctx, "boot")
	fmt.Println("lost:", written+1-begun)
	return err
}

func TestDiskFull(t *testing.T) {
	out := inNamespace(t, "small disk")
	for _, want := range []string{
		"event: infrastructure journal ", ": no space left: free some and run the same command again",
		"artefact: infrastructure state directory ", "lost: 0\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
}

// openReadOnly opens a journal, fine otherwise, on a read-only file system.
func openReadOnly(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = Open(dir)
	return err
}

func TestReadOnly(t *testing.T) {
	out := inNamespace(t, "read-only")
	if !strings.HasPrefix(out, "error user state directory ") || !strings.Contains(out, "cannot be written") {
		t.Errorf("got %q", out)
	}
}

// A state directory of somebody else's is the user's to mend.
func TestNotPermitted(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere; TestReadOnly covers the rest")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	_, err := Open(filepath.Join(dir, "state"))
	checkError(t, err, blame.User, "cannot be written")
}
