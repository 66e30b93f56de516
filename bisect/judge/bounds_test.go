package judge

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bisectd/workloads/probes"
)

// TestBoundsOfTheProbe: the table tells the bounds that the probe holds a
// kernel to, and leaves out none of its checks.
func TestBoundsOfTheProbe(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the probe on this machine")
	}
	binary, err := probes.Binary()
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "timerprobe")
	if err := os.WriteFile(path, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "--mode=semantics").Output()
	if err != nil {
		t.Fatal(err)
	}
	record, err := probes.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	laws := map[string]Law{}
	for _, l := range Laws() {
		laws[l.Name] = l
	}
	for _, i := range record.Invariants {
		l, ok := laws[i.Name]
		if !ok {
			t.Errorf("%s has no law", i.Name)
		} else if measured(i) && (l.Bound != i.Bound || l.Unit != i.Unit) {
			t.Errorf("%s: the probe has the bound %g %s, the law %g %s", i.Name, i.Bound, i.Unit, l.Bound, l.Unit)
		}
	}
	for _, m := range record.Markers {
		if _, ok := laws[m.Name]; !ok {
			t.Errorf("%s has no law", m.Name)
		}
	}
}
