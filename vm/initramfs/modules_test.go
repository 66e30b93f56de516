package initramfs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bisectd/vm/guest/proto"
)

// module returns the smallest ELF file with a .modinfo section.
func module(depends string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	info := "license=GPL\x00depends=" + depends + "\x00name=x\x00"
	const header, section = 64, 64
	le := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le.AppendUint16(b, 1)  // relocatable
	b = le.AppendUint16(b, 62) // x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, header) // section headers follow
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{header, 0, 0, section, 3, 2} {
		b = le.AppendUint16(b, v)
	}
	add := func(name, kind uint32, offset, size int) {
		b = le.AppendUint32(b, name)
		b = le.AppendUint32(b, kind)
		b = append(b, make([]byte, 16)...)
		b = le.AppendUint64(b, uint64(offset))
		b = le.AppendUint64(b, uint64(size))
		b = append(b, make([]byte, 24)...)
	}
	data := header + 3*section
	add(0, 0, 0, 0)
	add(1, 1, data, len(info))
	add(10, 3, data+len(info), len(names))
	return append(b, info+names...)
}

// kernelModules makes a lib/modules/RELEASE in which a needs b and c, and c
// needs b.
func kernelModules(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"modules.builtin":          []byte("kernel/drivers/built-in.ko\n"),
		"modules.order":            []byte("kernel/drivers/a-1.ko\n"),
		"kernel/drivers/a-1.ko":    module("b,c"),
		"kernel/lib/b.ko":          module(""),
		"kernel/lib/c.ko":          module("b,built_in"),
		"kernel/lib/lost.ko":       module("nowhere"),
		"kernel/lib/not-elf.ko":    make([]byte, 64),
		"kernel/lib/strange.ko.br": []byte("text"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestModules(t *testing.T) {
	files, err := Modules(kernelModules(t), "a_1", "b", "built_in")
	if err != nil {
		t.Fatal(err)
	}
	const want = "/lib/modules/b.ko\n/lib/modules/c.ko\n/lib/modules/a_1.ko\n"
	list := files[len(files)-1]
	if list.Path != proto.ModulesPath || string(list.Data) != want {
		t.Errorf("%s: %q, want %q", list.Path, list.Data, want)
	}
	var paths []string
	for _, f := range files[:len(files)-1] {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff(strings.Fields(want), paths); diff != "" {
		t.Error(diff)
	}
}

func TestModulesAllBuiltIn(t *testing.T) {
	if files, err := Modules(kernelModules(t), "built_in"); len(files) != 0 || err != nil {
		t.Errorf("%v, %v", files, err)
	}
}

func TestModulesOptional(t *testing.T) {
	files, err := Modules(kernelModules(t), "missing?", "b?")
	if err != nil || len(files) != 2 || files[0].Path != "/lib/modules/b.ko" {
		t.Errorf("%v, %v; want b and the list", files, err)
	}
	if _, err := Modules(kernelModules(t), "not_elf?"); err == nil {
		t.Error("a module that is there and broken passes")
	}
}

func TestModulesRefuses(t *testing.T) {
	dir := kernelModules(t)
	for _, name := range []string{"missing", "lost"} {
		if _, err := Modules(dir, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{"not_elf": "bad magic", "strange": "unknown compression"} {
		if _, err := Modules(dir, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Modules(t.TempDir(), "b"); err == nil {
		t.Error("a directory without modules passes")
	}
}

func TestModulesWithoutAList(t *testing.T) {
	dir := kernelModules(t)
	if err := os.Remove(filepath.Join(dir, "modules.builtin")); err != nil {
		t.Fatal(err)
	}
	files, err := Modules(dir, "built_in", "c", "nowhere")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v; want b, c and the list", files, err)
	}
	if got, want := string(files[2].Data), "/lib/modules/b.ko\n/lib/modules/c.ko\n"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
}

func TestModulesCompressed(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not installed (Debian package xz-utils)")
	}
	dir := kernelModules(t)
	if out, err := exec.Command("xz", filepath.Join(dir, "kernel/lib/b.ko")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := Modules(dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(module(""), files[0].Data); diff != "" {
		t.Error(diff)
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add(module("b,c"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, image []byte) {
		names, err := dependencies(image)
		if err != nil && names != nil {
			t.Error("names beside an error")
		}
	})
}
