package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "bisectd"

// imports is the architecture: for every package of the module, those of the
// module that it may import. Imports point down only. A new package or a new
// edge is entered here, on purpose, and in .golangci.yml where it draws a new
// line between trees.
var imports = map[string][]string{
	"blame":   {},
	"configs": {},

	"workloads":          {"blame"},
	"workloads/hrtimer":  {"blame", "workloads"},
	"workloads/probes":   {"blame", "workloads"},
	"workloads/stressng": {"blame", "workloads"},

	"kbuild":               {"blame", "kbuild/internal/proc", "kbuild/kconfig"},
	"kbuild/debpkg":        {"blame", "kbuild/internal/proc"},
	"kbuild/internal/proc": {"blame"},
	"kbuild/kconfig":       {},

	"vm":             {"vm/guest/proto"},
	"vm/guest":       {"blame", "vm/guest/proto", "vm/initramfs"},
	"vm/guest/init":  {"vm/guest/proto"},
	"vm/guest/proto": {},
	"vm/initramfs":   {"vm/guest/proto"},
	"vm/qemu":        {"blame", "vm", "vm/guest/proto", "vm/qmp"},
	"vm/qmp":         {},

	"bisect":          {"blame", "workloads"},
	"bisect/history":  {"bisect", "blame"},
	"bisect/journal":  {"blame"},
	"bisect/judge":    {"bisect", "blame", "workloads", "workloads/hrtimer", "workloads/probes"},
	"bisect/report":   {"bisect", "workloads", "workloads/probes"},
	"bisect/simulate": {"bisect", "bisect/history", "bisect/judge", "workloads"},
	"bisect/runner": {
		"bisect", "bisect/journal", "bisect/judge", "blame", "kbuild",
		"vm", "vm/guest", "vm/guest/proto", "vm/initramfs",
		"workloads", "workloads/hrtimer", "workloads/probes",
	},

	"cmd/bisectd": {
		"bisect", "bisect/history", "bisect/journal", "bisect/judge", "bisect/report", "bisect/runner",
		"bisect/simulate", "blame", "cmd/bisectd/internal/demo", "configs", "kbuild", "kbuild/debpkg",
		"vm", "vm/guest", "vm/guest/proto", "vm/qemu", "workloads", "workloads/probes", "workloads/stressng",
	},
	"cmd/bisectd/internal/demo": {"bisect", "blame"},
}

// testImports is what the tests of a package import beyond that: the real
// thing beside a fake.
var testImports = map[string][]string{
	"bisect":                    {"bisect/history", "bisect/judge", "workloads/probes"},
	"kbuild":                    {"configs"},
	"bisect/runner":             {"vm/initramfs", "vm/qemu", "workloads/stressng"},
	"vm/qemu":                   {"vm/guest", "vm/initramfs"},
	"cmd/bisectd/internal/demo": {"configs", "workloads"},
}

// never lists what the table must not be edited into: no package of the first
// tree may depend on one of the others, not even through third ones.
var never = []struct {
	tree string
	on   []string
	why  string
}{
	{"blame", []string{"bisect", "cmd", "configs", "kbuild", "vm", "workloads"}, "a leaf"},
	{"configs", []string{"bisect", "cmd", "kbuild", "vm", "workloads"}, "a leaf"},
	{"workloads", []string{"bisect", "cmd", "kbuild", "vm"}, "data about programs knows no kernels or machines"},
	{"kbuild", []string{"bisect", "cmd", "vm", "workloads"}, "building knows neither booting nor bisecting"},
	{"vm", []string{"bisect", "cmd", "kbuild", "workloads"}, "booting knows neither building nor bisecting"},
	{"bisect/judge", []string{"cmd", "kbuild", "vm"}, "what was observed can be judged again without a machine"},
	{"bisect/history", []string{"cmd", "kbuild", "vm"}, "a range is commits alone"},
	{"bisect/report", []string{"cmd", "kbuild", "vm"}, "a result is rendered from what it holds"},
	{"bisect", []string{"cmd"}, "the command is the top"},
}

// listed is what go list tells about one package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func packages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "e2e",
		"-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("go list: %v", err)
		}
		all[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}

// own keeps the module's packages of a list, without the module's name.
func own(list []string) []string {
	var kept []string
	for _, p := range list {
		if name, ok := strings.CutPrefix(p, module+"/"); ok {
			kept = append(kept, name)
		}
	}
	return kept
}

func within(tree, name string) bool { return name == tree || strings.HasPrefix(name, tree+"/") }

func TestImportDirection(t *testing.T) {
	all := packages(t)
	for name, p := range all {
		allowed, known := imports[name]
		if !known {
			t.Errorf("%s is not in the table of imports: give it a place in the architecture", name)
			continue
		}
		for _, i := range own(p.Imports) {
			if !slices.Contains(allowed, i) {
				t.Errorf("%s must not import %s", name, i)
			}
		}
		allowed = slices.Concat(allowed, testImports[name], []string{name})
		for _, i := range own(slices.Concat(p.TestImports, p.XTestImports)) {
			if !slices.Contains(allowed, i) {
				t.Errorf("tests of %s must not import %s", name, i)
			}
		}
	}
	for name := range imports {
		if _, exists := all[name]; !exists {
			t.Errorf("%s is in the table of imports and does not exist", name)
		}
	}
}

func TestTreesStayApart(t *testing.T) {
	for name, p := range packages(t) {
		for _, rule := range never {
			if !within(rule.tree, name) {
				continue
			}
			for _, dep := range own(p.Deps) {
				if slices.ContainsFunc(rule.on, func(tree string) bool { return within(tree, dep) }) {
					t.Errorf("%s depends on %s; %s: %s", name, dep, rule.tree, rule.why)
				}
			}
		}
		if name != "cmd/bisectd" && slices.ContainsFunc(own(p.Deps), func(d string) bool { return within("cmd", d) }) {
			t.Errorf("%s imports a command; only cmd/bisectd may use what is internal to it", name)
		}
	}
}
