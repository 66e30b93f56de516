package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"bisectd/blame"
)

// history builds the commits of a series on top of the first one. It needs no
// work tree: patches go into an index, trees are written from there.
type history struct {
	repository
	index   string            // path of the index, which holds the tip's tree
	lines   map[string]string // tip of every line of history
	current string            // the line that grows
	commits []Commit
}

// grow makes every step of s.
func (h *history) grow(ctx context.Context, s series, files fs.FS) error {
	if err := h.load(ctx); err != nil {
		return err
	}
	for _, st := range s.Steps {
		var err error
		switch {
		case st.Patch != "":
			err = h.apply(ctx, st, files)
		case st.Tag != "":
			err = h.point(ctx, "refs/tags/"+st.Tag, h.tip())
		case st.Branch != "":
			h.lines[st.Branch] = h.tip()
		case st.Switch != "":
			h.current = st.Switch
			err = h.load(ctx)
		case st.Merge != "":
			err = h.merge(ctx, st, s.Identity)
		}
		if err != nil {
			return err
		}
	}
	for name, tip := range h.lines {
		if err := h.point(ctx, "refs/heads/"+name, tip); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) tip() string { return h.lines[h.current] }

// load fills the index with the tree of the tip.
func (h *history) load(ctx context.Context) error {
	_, err := h.git(ctx, nil, h.env(), "read-tree", h.tip())
	return err
}

func (h *history) env() []string { return []string{"GIT_INDEX_FILE=" + h.index} }

func (h *history) point(ctx context.Context, ref, id string) error {
	_, err := h.git(ctx, nil, nil, "update-ref", ref, id)
	return err
}

// apply makes a commit of one patch. A patch that does not fit is the fault
// of whoever chose the source: the series belongs to another one.
func (h *history) apply(ctx context.Context, st step, files fs.FS) error {
	data, err := fs.ReadFile(files, st.Patch)
	if err != nil {
		return blame.Errorf(blame.Infrastructure, "demonstration: %w", err)
	}
	p, err := parsePatch(data)
	if err != nil {
		return blame.Errorf(blame.Infrastructure, "demonstration: %s: %w", st.Patch, err)
	}
	var exit *exec.ExitError
	_, err = h.git(ctx, bytes.NewReader(p.diff), h.env(), "apply", "--cached", "--whitespace=nowarn", "-")
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == 1: // 128: git itself failed
		return blame.Errorf(blame.User, "%s does not apply to this kernel source: %w", st.Patch, err)
	case err != nil:
		return fmt.Errorf("%s: %w", st.Patch, err)
	}
	tree, err := h.git(ctx, nil, h.env(), "write-tree")
	if err != nil {
		return err
	}
	id, err := h.commit(ctx, tree, p.author, p.message, h.tip())
	if err != nil {
		return err
	}
	h.add(Commit{ID: id, Patch: st.Patch, Fate: st.Fate, Subject: firstLine(p.message)})
	return nil
}

// merge joins another line to the current one, always by a commit of its own.
func (h *history) merge(ctx context.Context, st step, who identity) error {
	tree, err := h.git(ctx, nil, nil, "merge-tree", "--write-tree", h.tip(), h.lines[st.Merge])
	if err != nil {
		return fmt.Errorf("merge of %s: %w", st.Merge, err)
	}
	message := strings.TrimSpace(st.Message) + "\n"
	id, err := h.commit(ctx, tree, signature{who, st.Date}, message, h.tip(), h.lines[st.Merge])
	if err != nil {
		return err
	}
	h.add(Commit{ID: id, Fate: st.Fate, Subject: firstLine(message)})
	return h.load(ctx)
}

func (h *history) add(c Commit) {
	h.lines[h.current] = c.ID
	h.commits = append(h.commits, c)
}

// commit writes the commit object itself, so that nothing of this machine or
// this moment gets into its id.
func (h *history) commit(ctx context.Context, tree string, who signature, message string, parents ...string,
) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&text, "parent %s\n", p)
	}
	fmt.Fprintf(&text, "author %s\ncommitter %s\n\n%s", who, who, message)
	return h.git(ctx, strings.NewReader(text.String()), nil, "hash-object", "-t", "commit", "-w", "--stdin")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// build makes the whole repository in dir, which exists and is empty.
func build(ctx context.Context, dir, source string, s series, files fs.FS, say func(string)) ([]Commit, error) {
	r := repository{dir: dir}
	_, err := r.git(ctx, nil, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch="+mainLine)
	if err != nil {
		return nil, err
	}
	packed := archive{source, s.Source.Directory, say}
	err = r.importSource(ctx, packed, mainLine, signature{s.Identity, s.Root.Date}, s.Root.Subject+"\n")
	if err != nil {
		return nil, err
	}
	base, err := r.git(ctx, nil, nil, "rev-parse", "refs/heads/"+mainLine)
	if err != nil {
		return nil, err
	}
	h := &history{repository: r, index: filepath.Join(dir, "demo.index"), current: mainLine,
		lines: map[string]string{mainLine: base}}
	h.commits = append(h.commits, Commit{ID: base, Subject: s.Root.Subject})
	if s.Root.Tag != "" {
		if err := h.point(ctx, "refs/tags/"+s.Root.Tag, base); err != nil {
			return nil, err
		}
	}
	say(fmt.Sprintf("applying %d patches", len(s.patches())))
	if err := h.grow(ctx, s, files); err != nil {
		return nil, err
	}
	return h.commits, nil
}
