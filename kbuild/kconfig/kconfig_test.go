package kconfig

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, file, text string) *Config {
	t.Helper()
	c, err := Parse(file, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParse(t *testing.T) {
	text := `#
# Automatically generated file; DO NOT EDIT.
#
CONFIG_SMP=y
CONFIG_E1000=m
CONFIG_OFF=n
# CONFIG_DEBUG is not set
CONFIG_NR_CPUS=64
CONFIG_NICE=-5
CONFIG_PHYSICAL_START=0x1000000
CONFIG_LOCALVERSION=""
CONFIG_CMDLINE="a=\"b\" c\\"
# optional
CONFIG_KVM_GUEST=y

# optional
# CONFIG_MODULES is not set
# optional

CONFIG_AFTER_GAP=y
CONFIG_SMP=n
`
	want := []Setting{
		{Name: "CONFIG_AFTER_GAP", Value: Value{Tristate, "y"}, Line: 20},
		{Name: "CONFIG_CMDLINE", Value: Value{String, `"a=\"b\" c\\"`}, Line: 12},
		{Name: "CONFIG_DEBUG", Line: 7},
		{Name: "CONFIG_E1000", Value: Value{Tristate, "m"}, Line: 5},
		{Name: "CONFIG_KVM_GUEST", Value: Value{Tristate, "y"}, Optional: true, Line: 14},
		{Name: "CONFIG_LOCALVERSION", Value: Value{String, `""`}, Line: 11},
		{Name: "CONFIG_MODULES", Optional: true, Line: 17},
		{Name: "CONFIG_NICE", Value: Value{Int, "-5"}, Line: 9},
		{Name: "CONFIG_NR_CPUS", Value: Value{Int, "64"}, Line: 8},
		{Name: "CONFIG_OFF", Line: 6},
		{Name: "CONFIG_PHYSICAL_START", Value: Value{Hex, "0x1000000"}, Line: 10},
		{Name: "CONFIG_SMP", Line: 21},
	}
	for i := range want {
		want[i].File = "x.config"
	}
	if diff := cmp.Diff(want, parse(t, "x.config", text).Settings()); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"CONFIG_A=y\nSMP=y\n":       `f:2: neither CONFIG_NAME=value nor a comment: "SMP=y"`,
		"CONFIG_A=yes":              `f:1: CONFIG_A: "yes" is not y, m, n, a number or a string in double quotes`,
		"CONFIG_A=":                 `f:1: CONFIG_A: "" is not y, m, n, a number or a string in double quotes`,
		"CONFIG_A=\"x":              `f:1: CONFIG_A: "\"x" is not y, m, n, a number or a string in double quotes`,
		"CONFIG_A=\"x\\\"":          `f:1: CONFIG_A: "\"x\\\"" is not y, m, n, a number or a string in double quotes`,
		" CONFIG_A=y":               `f:1: neither CONFIG_NAME=value nor a comment: " CONFIG_A=y"`,
		strings.Repeat("x", 2<<20):  `f:1: bufio.Scanner: token too long`,
		"CONFIG_A-B=y":              `f:1: neither CONFIG_NAME=value nor a comment: "CONFIG_A-B=y"`,
		"# fine\n\nCONFIG_A=0xzz\n": `f:3: CONFIG_A: "0xzz" is not y, m, n, a number or a string in double quotes`,
	} {
		_, err := Parse("f", strings.NewReader(text))
		if err == nil || err.Error() != want {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
}

func TestMergeLaterWins(t *testing.T) {
	base := parse(t, "base", "CONFIG_A=y\nCONFIG_B=y\n# optional\nCONFIG_C=y\nCONFIG_D=1\n")
	top := parse(t, "top", "# optional\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n# optional\nCONFIG_D=2\n")
	want := "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n# optional\nCONFIG_D=2\n"
	if diff := cmp.Diff(want, string(Merge(base, top).Text())); diff != "" {
		t.Error(diff)
	}
}

func TestTextIgnoresOrder(t *testing.T) {
	a := Merge(parse(t, "a", "CONFIG_Z=y\n# comment\nCONFIG_A=n\n"))
	b := Merge(parse(t, "b", "# CONFIG_A is not set\n"), parse(t, "c", "CONFIG_Z=y\n"))
	if !bytes.Equal(a.Text(), b.Text()) {
		t.Errorf("%q and %q differ", a.Text(), b.Text())
	}
}

func TestCheck(t *testing.T) {
	asked := parse(t, "f", `CONFIG_KEPT=y
CONFIG_DROPPED=y
# optional
CONFIG_LACKING=y
CONFIG_OFF_BY_ABSENCE=n
# CONFIG_OFF_BY_COMMENT is not set
CONFIG_OFF_BY_N=n
# CONFIG_CAME_BACK is not set
CONFIG_HEX=0x0010
CONFIG_WIDE=0x0ffffffff80000000
CONFIG_INT=7
CONFIG_STRING="a"
CONFIG_MODULE=m
`)
	final := parse(t, ".config", `CONFIG_KEPT=y
# CONFIG_OFF_BY_COMMENT is not set
CONFIG_OFF_BY_N=n
CONFIG_CAME_BACK=y
CONFIG_HEX=0X10
CONFIG_WIDE=0xFFFFFFFF80000000
CONFIG_INT=8
CONFIG_STRING="b"
CONFIG_MODULE=y
CONFIG_NOT_ASKED=y
`)
	dropped, lacking := Check(final, asked)
	wantDropped := []string{
		"CONFIG_CAME_BACK asked n, got y",
		"CONFIG_DROPPED asked y, got n",
		"CONFIG_INT asked 7, got 8",
		"CONFIG_MODULE asked m, got y",
		`CONFIG_STRING asked "a", got "b"`,
	}
	if diff := cmp.Diff(wantDropped, texts(dropped)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"CONFIG_LACKING asked y, got n"}, texts(lacking)); diff != "" {
		t.Error(diff)
	}
}

func texts(all []Mismatch) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.String())
	}
	return out
}

// FuzzParse holds that what parses can be rendered and read back unchanged,
// and that a configuration satisfies itself.
func FuzzParse(f *testing.F) {
	f.Add("CONFIG_A=y\n# optional\n# CONFIG_B is not set\nCONFIG_C=\"x\\\"\"\nCONFIG_D=0x1F\nCONFIG_E=-3\n")
	f.Add("# optional\n\nCONFIG_A=m")
	f.Add("CONFIG_A=n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := Parse("f", bytes.NewReader(c.Text()))
		if err != nil {
			t.Fatalf("%v in what was rendered:\n%s", err, c.Text())
		}
		if !bytes.Equal(c.Text(), again.Text()) {
			t.Fatalf("%q became %q", c.Text(), again.Text())
		}
		if dropped, lacking := Check(again, c); dropped != nil || lacking != nil {
			t.Fatalf("does not satisfy itself: %v %v", dropped, lacking)
		}
	})
}
