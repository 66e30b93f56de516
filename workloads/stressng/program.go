package stressng

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"bisectd/blame"
	"bisectd/workloads"
)

// queryTimeout bounds the calls of stress-ng and of the dynamic loader that
// only ask for something.
const queryTimeout = 20 * time.Second

// loaderCache lets the loader find, under the same paths as on the host,
// libraries outside its default directories (ld.so(8)).
const loaderCache = "/etc/ld.so.cache"

// program is a stress-ng on the host.
type program struct {
	find func() (string, error) // absolute path of the executable

	once    sync.Once
	version string
	stderr  bool // has --stderr: logs to standard output otherwise
	err     error
}

// installed is the stress-ng of the host's PATH.
var installed = &program{find: func() (string, error) {
	path, err := exec.LookPath("stress-ng")
	if err != nil {
		return "", blame.Errorf(blame.User,
			"stress-ng is not installed; Debian, Ubuntu and Fedora have it as package stress-ng")
	}
	return filepath.Abs(path)
}}

var versionLine = regexp.MustCompile(`(?m)^stress-ng, version (\S+)`)

// query asks the program once for its version and its options.
func (p *program) query() error {
	p.once.Do(func() {
		var path string
		if path, p.err = p.find(); p.err != nil {
			return
		}
		var version, help []byte
		if version, p.err = output(path, "--version"); p.err != nil {
			return
		}
		if help, p.err = output(path, "--help"); p.err != nil {
			return
		}
		m := versionLine.FindSubmatch(version)
		if m == nil {
			p.err = blame.Errorf(blame.User, "%s does not print a version of stress-ng: %q", path, version)
			return
		}
		p.version = "stress-ng " + string(m[1])
		p.stderr = bytes.Contains(help, []byte(" --stderr "))
	})
	return p.err
}

// output runs a query on the host.
func output(path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	// Variables such as LD_LIBRARY_PATH are not set in the guest either.
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, blame.Errorf(blame.Infrastructure, "%s %s: %w", path, strings.Join(args, " "), err)
	}
	return out, nil
}

// files lists the executable, its loader and its libraries, under the paths
// that they have on the host.
func (p *program) files() ([]workloads.File, error) {
	path, err := p.find()
	if err != nil {
		return nil, err
	}
	files := []workloads.File{{Path: path, Mode: 0o755, Host: path}}
	loader, err := interpreter(path)
	if err != nil || loader == "" {
		return files, err
	}
	list, err := output(loader, "--list", path)
	if err != nil {
		return nil, err
	}
	libraries, err := parseList(list)
	if err != nil {
		return nil, blame.Errorf(blame.User, "%s: %w", path, err)
	}
	files = append(files, workloads.File{Path: loader, Mode: 0o755, Host: loader})
	for _, lib := range libraries {
		if lib != loader {
			files = append(files, workloads.File{Path: lib, Mode: 0o755, Host: lib})
		}
	}
	if _, err := os.Stat(loaderCache); err == nil {
		files = append(files, workloads.File{Path: loaderCache, Mode: 0o644, Host: loaderCache})
	}
	return files, nil
}

// interpreter returns the dynamic loader that an executable names, empty for a
// static one.
func interpreter(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", blame.Errorf(blame.User, "%s is not an ELF executable: %w", path, err)
	}
	defer f.Close()
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(prog.Open())
		if err != nil {
			return "", blame.Errorf(blame.User, "%s: %w", path, err)
		}
		return string(bytes.TrimRight(name, "\x00")), nil
	}
	return "", nil
}

// parseList reads what the loader prints for --list, such as
//
//	linux-vdso.so.1 (0x00007ffd...)
//	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f...)
//	/lib64/ld-linux-x86-64.so.2 (0x00007f...)
func parseList(list []byte) ([]string, error) {
	var paths []string
	lines := bufio.NewScanner(bytes.NewReader(list))
	for lines.Scan() {
		name, path, arrow := strings.Cut(strings.TrimSpace(lines.Text()), " => ")
		if !arrow {
			path = name
		}
		if strings.HasPrefix(path, "not found") {
			return nil, blame.Errorf(blame.User, "needs the library %s, which is not installed", name)
		}
		path, _, _ = strings.Cut(path, " (")
		if filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths, lines.Err()
}
