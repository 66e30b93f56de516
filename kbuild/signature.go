package kbuild

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// signature hashes what of a vmlinux gets into memory. Two commits with the
// same signature are the same kernel to any test. Debug information and notes
// (the build id) do not count; the banner, with constant build variables, is
// the same in all kernels of one version.
//
// The reverse does not hold. A comment that moves code to other lines changes
// the line numbers in __bug_table and in messages with __LINE__, and with them
// the signature.
func signature(vmlinux string) (string, error) {
	f, err := elf.Open(vmlinux)
	if err != nil {
		return "", fmt.Errorf("kbuild: %s: %w", vmlinux, err)
	}
	defer f.Close()
	sum := sha256.New()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOTE || strings.HasPrefix(s.Name, ".note") {
			continue
		}
		fmt.Fprintf(sum, "%s %d %x %d\n", s.Name, s.Type, s.Addr, s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if _, err := io.Copy(sum, s.Open()); err != nil {
			return "", fmt.Errorf("kbuild: %s: section %s: %w", vmlinux, s.Name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
