package kbuild

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"bisectd/blame"
	"bisectd/kbuild/internal/proc"
)

// toolchain is the compiler and binutils, as far as they can change an image.
type toolchain struct {
	compiler string // program name
	version  string // first line of its --version, as CONFIG_CC_VERSION_TEXT has it
	binutils string // first line of ld --version
	ccache   bool
}

var compilers = regexp.MustCompile(`^gcc(-[0-9]+)?$`)

// findToolchain asks the programs on PATH who they are. It is asked at every
// build: a host may be upgraded while a bisection runs.
func findToolchain(ctx context.Context, compiler string) (toolchain, error) {
	if compiler == "" {
		compiler = "gcc"
	}
	if !compilers.MatchString(compiler) {
		return toolchain{}, blame.Errorf(blame.User, "compiler %q: only gcc and gcc-VERSION are supported", compiler)
	}
	t := toolchain{compiler: compiler}
	for program, line := range map[string]*string{compiler: &t.version, "ld": &t.binutils} {
		out, err := proc.Command{Env: proc.Environment()}.Text(ctx, program, "--version")
		if err != nil {
			return toolchain{}, blame.Errorf(blame.User, "%w", err)
		}
		*line = proc.FirstLine(out)
	}
	_, err := exec.LookPath("ccache")
	t.ccache = err == nil
	return t, nil
}

// id tells toolchains apart. ccache is not in it: it does not change an image.
func (t toolchain) id() string { return t.version + "\n" + t.binutils + "\n" }

// tools are the programs that building a kernel for our guest needs, and the
// Debian package of each.
var tools = []struct{ program, debian string }{
	{"git", "git"}, {"make", "make"}, {"gcc", "gcc"}, {"ld", "binutils"}, {"flex", "flex"}, {"bison", "bison"},
	{"bc", "bc"}, {"perl", "perl"}, {"lz4", "lz4"}, {"gzip", "gzip"},
}

// headers are the C headers that programs of the kernel's build include, and
// the Debian package of each: objtool needs libelf.
var headers = []struct{ name, debian string }{{"gelf.h", "libelf-dev"}}

// Check reports all that this host lacks to build kernels, with the names of
// the Debian packages, as one blame.User error.
func Check(ctx context.Context) error {
	var missing, packages []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			missing, packages = append(missing, t.program), append(packages, t.debian)
		}
	}
	if _, err := exec.LookPath("gcc"); err == nil {
		for _, h := range headers {
			p := proc.Command{Env: proc.Environment()}
			if _, err := p.Text(ctx, "gcc", "-E", "-include", h.name, "-x", "c", "/dev/null", "-o", "/dev/null"); err != nil {
				missing, packages = append(missing, h.name), append(packages, h.debian)
			}
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("kbuild: %w", context.Cause(ctx))
	}
	if len(missing) == 0 {
		return nil
	}
	return blame.Errorf(blame.User, "this host cannot build kernels: missing %s; on Debian: apt-get install %s",
		strings.Join(missing, ", "), strings.Join(packages, " "))
}
