package kbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"bisectd/blame"
	"bisectd/kbuild/kconfig"
)

// reproducible is put on top of every request. A release string with the
// commit in it would rebuild its users and relink at every step, and make
// equal kernels differ.
const reproducible = "# CONFIG_LOCALVERSION_AUTO is not set\n"

// request merges the named fragments.
func request(fragments fs.FS, names []string) (*kconfig.Config, error) {
	var all []*kconfig.Config
	for _, name := range names {
		file := name + ".config"
		text, err := fs.ReadFile(fragments, file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil, blame.Errorf(blame.User, "no config fragment %q", name)
		}
		if err != nil {
			return nil, fmt.Errorf("kbuild: %w", err)
		}
		c, err := kconfig.Parse(file, bytes.NewReader(text))
		if err != nil {
			return nil, blame.Errorf(blame.User, "config fragment %w", err)
		}
		all = append(all, c)
	}
	last, err := kconfig.Parse("reproducible", strings.NewReader(reproducible))
	if err != nil {
		return nil, err
	}
	return kconfig.Merge(append(all, last)...), nil
}

// decidesConfig reports whether a file can have a say in what a configuration
// comes out as: Kconfig files, the scripts they call, base configurations, and
// Makefiles of the top and of an architecture, which pass flags on to them.
func decidesConfig(file string) bool {
	base := path.Base(file)
	switch {
	case strings.Contains(base, "Kconfig"), strings.HasSuffix(base, ".config"), strings.HasSuffix(base, ".sh"):
		return true
	case strings.HasPrefix(file, "scripts/"), strings.Contains(file, "/configs/"):
		return true
	case file == "Makefile":
		return true
	}
	arch, isArch := strings.CutPrefix(file, "arch/")
	return isArch && base == "Makefile" && strings.Count(arch, "/") == 1
}

// configKey hashes everything that decides the final configuration, so that it
// is made once for all trees that agree in it.
func (b *build) configKey(ctx context.Context) (string, error) {
	list, err := b.tree.work.git(ctx, nil, b.tree.work.repo, "ls-tree", "-r", "-z", "--full-tree", b.spec.Tree)
	if err != nil {
		return "", fmt.Errorf("kbuild: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s%s%q\n", b.tools.id(), b.request.Text(), variables(b.tools.compiler))
	for entry := range strings.SplitSeq(list, "\x00") {
		if _, file, ok := strings.Cut(entry, "\t"); ok && decidesConfig(file) {
			fmt.Fprintf(sum, "%s\n", entry)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// config returns the final configuration: made from nothing but tinyconfig and
// the request, never from an earlier commit's, so that it does not depend on
// the way of the walk.
func (b *build) config(ctx context.Context, out *output) ([]byte, error) {
	key, err := b.configKey(ctx)
	if err != nil {
		return nil, err
	}
	kept := filepath.Join(b.tree.slot, "configs", key)
	if text, err := os.ReadFile(kept); err == nil {
		return text, nil
	}
	scratch := b.objects.scratch()
	if err := b.configure(ctx, out, "tinyconfig"); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(scratch, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("kbuild: tinyconfig: %w", err)
	}
	_, err = f.Write(b.request.Text())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	if err := b.configure(ctx, out, "olddefconfig"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(scratch)
	if err != nil {
		return nil, fmt.Errorf("kbuild: olddefconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	if err := writeDurably(kept, text); err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	return text, nil
}

// configure makes one of the kernel's configuration targets in the scratch
// file. Kconfig tries the compiler some hundred times, with nothing in it for
// ccache.
func (b *build) configure(ctx context.Context, out *output, target string) error {
	return b.make(ctx, out, b.tools.compiler, "KCONFIG_CONFIG="+b.objects.scratch(), target)
}

// checkConfig returns the names of the optional symbols that the final
// configuration lacks, and blames the kernel for the lack of a required one.
func (b *build) checkConfig(ctx context.Context, text []byte) ([]string, error) {
	final, err := kconfig.Parse(".config", bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	dropped, lacking := kconfig.Check(final, b.request)
	var wanted, complaints []string
	for _, m := range lacking {
		wanted = append(wanted, m.Name)
	}
	for _, m := range dropped {
		known, err := b.knows(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		if known {
			complaints = append(complaints, m.String())
			continue
		}
		complaints = append(complaints, m.String()+" (no such symbol at this commit)")
	}
	if complaints != nil {
		return wanted, blame.Errorf(blame.Kernel, "config: %s", strings.Join(complaints, "; "))
	}
	return wanted, nil
}

// knows reports whether a Kconfig file of the tree defines the symbol.
func (b *build) knows(ctx context.Context, symbol string) (bool, error) {
	pattern := `^[[:space:]]*(menu)?config[[:space:]]+` + strings.TrimPrefix(symbol, "CONFIG_") + `[[:space:]]*$`
	out, err := b.tree.work.git(ctx, nil, b.tree.work.repo,
		"grep", "--count", "-E", pattern, b.spec.Tree, "--", ":(glob)**/Kconfig*")
	if exitStatus(err) == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kbuild: %w", err)
	}
	return out != "", nil
}
