package initramfs

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"bisectd/vm/guest/proto"
)

// GuestModules are what a guest needs of a kernel that has everything as
// modules, as distributions build it: the result channel and the panic device.
// Kernels before 5.13 have no driver for the latter on PCI.
var GuestModules = []string{"virtio_pci", "virtio_console", "pvpanic-pci?"}

// Modules returns the files that make the agent load the wanted modules of the
// kernel whose modules are in dir (lib/modules/RELEASE of its package), with
// those that they depend on, and the list of them. What modules.builtin names
// is left out; where there is no such file, as in Debian's packages from 7.2
// on, whatever is no module is taken for built in. So is, anywhere, what is
// wanted with a question mark behind its name. The dependencies are read from
// the modules, as a package has no modules.dep before it is installed.
func Modules(dir string, wanted ...string) ([]File, error) {
	m, err := openModules(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		name, optional := strings.CutSuffix(name, "?")
		err := m.add(canonical(name))
		if optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
	}
	if len(m.files) == 0 {
		return nil, nil
	}
	var list bytes.Buffer
	for _, f := range m.files {
		fmt.Fprintln(&list, f.Path)
	}
	return append(m.files, File{Path: proto.ModulesPath, Mode: 0o644, Data: list.Bytes()}), nil
}

// modules is one kernel's modules and the ones chosen of them.
type modules struct {
	paths   map[string]string // canonical name to file
	builtin map[string]bool   // nil: not known
	done    map[string]bool
	files   []File // in the order of loading
}

// canonical returns the name under which the kernel knows a module: a path
// without directory and suffix, with underscores.
func canonical(name string) string {
	name, _, _ = strings.Cut(path.Base(name), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func openModules(dir string) (*modules, error) {
	m := &modules{paths: map[string]string{}, done: map[string]bool{}}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	switch {
	case err == nil:
		m.builtin = map[string]bool{}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	for l := range strings.Lines(string(list)) {
		m.builtin[canonical(strings.TrimSpace(l))] = true
	}
	if _, err := os.Stat(filepath.Join(dir, "kernel")); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			m.paths[canonical(d.Name())] = file
		}
		return err
	})
	return m, err
}

// add adds a module after those that it depends on.
func (m *modules) add(name string) error {
	if m.done[name] || m.builtin[name] {
		return nil
	}
	m.done[name] = true
	file, ok := m.paths[name]
	if !ok && m.builtin == nil {
		return nil
	}
	if !ok {
		return fmt.Errorf("neither a module nor built in: %w", fs.ErrNotExist)
	}
	image, err := readModule(file)
	if err != nil {
		return err
	}
	depends, err := dependencies(image)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range depends {
		if err := m.add(canonical(d)); err != nil {
			return fmt.Errorf("needs %s: %w", d, err)
		}
	}
	m.files = append(m.files, File{Path: "/lib/modules/" + name + ".ko", Mode: 0o644, Data: image})
	return nil
}

// readModule reads a module and unpacks it: not every kernel can do it itself.
func readModule(file string) ([]byte, error) {
	unpack := map[string]string{".ko": "", ".xz": "xz", ".gz": "gzip", ".zst": "zstd"}
	program, known := unpack[filepath.Ext(file)]
	if !known {
		return nil, fmt.Errorf("%s: unknown compression", file)
	}
	if program == "" {
		return os.ReadFile(file)
	}
	image, err := exec.Command(program, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w", program, file, err)
	}
	return image, nil
}

// dependencies returns the modules in the "depends" entry of a module's
// .modinfo section, whose entries are strings ended by zero bytes.
func dependencies(image []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(entry), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
