package kbuild

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// payload is the compressed kernel within the decompressor: vmlinux, once more.
const payload = ".rodata..compressed"

// signature hashes what of a built kernel gets into memory: vmlinux, and from
// the bzImage around it the set-up code and the decompressor. Two commits with
// the same signature are the same kernel to any test. Debug information and
// notes (the build id) do not count; the banner, with constant build variables,
// is the same in all kernels of one version.
//
// The reverse does not hold. A comment that moves code to other lines changes
// the line numbers in __bug_table and in messages with __LINE__, and with them
// the signature.
func signature(output string) (string, error) {
	boot := filepath.Join(output, "arch/x86/boot")
	sum := sha256.New()
	for _, program := range []string{filepath.Join(output, "vmlinux"), filepath.Join(boot, "compressed/vmlinux")} {
		if err := hashProgram(sum, program); err != nil {
			return "", fmt.Errorf("kbuild: signature: %w", err)
		}
	}
	setup, err := os.ReadFile(filepath.Join(boot, "setup.bin"))
	if err != nil {
		return "", fmt.Errorf("kbuild: signature: %w", err)
	}
	sum.Write(setup)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashProgram hashes the sections of an ELF file that are loaded.
func hashProgram(sum io.Writer, path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOTE || strings.HasPrefix(s.Name, ".note") || s.Name == payload {
			continue
		}
		fmt.Fprintf(sum, "%s %d %x %d\n", s.Name, s.Type, s.Addr, s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if _, err := io.Copy(sum, s.Open()); err != nil {
			return fmt.Errorf("%s: section %s: %w", path, s.Name, err)
		}
	}
	return nil
}
