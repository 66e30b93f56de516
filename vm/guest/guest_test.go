package guest

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"bisectd/blame"
)

// TestGenerate runs the command of the go:generate line, with another output,
// and looks at what a kernel needs: a small static program.
func TestGenerate(t *testing.T) {
	source, err := os.ReadFile("guest.go")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^//go:generate (.*) -o bin/init (.*)$`).FindSubmatch(source)
	if line == nil {
		t.Fatal("no go:generate line that builds bin/init")
	}
	agent := filepath.Join(t.TempDir(), "init")
	command := string(line[1]) + " -o " + agent + " " + string(line[2])
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	info, err := os.Stat(agent)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 4 << 20
	if info.Size() > limit {
		t.Errorf("the agent has %d bytes: each boot unpacks it", info.Size())
	}
	f, err := elf.Open(agent)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the agent is not static")
		}
	}
}

func TestAgent(t *testing.T) {
	agent, err := Agent()
	if _, missing := os.Stat("bin/init"); missing != nil {
		if blame.Of(err) != blame.Infrastructure || err == nil {
			t.Errorf("without the agent: %v", err)
		}
		return
	}
	if err != nil || !bytes.HasPrefix(agent, []byte(elf.ELFMAG)) {
		t.Errorf("%d bytes, %v", len(agent), err)
	}
}
