package demo

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"bisectd/blame"
)

// archive is an xz-compressed tar archive of a source tree.
type archive struct {
	path string
	top  string       // the directory that holds the tree
	say  func(string) // told how far the unpacking is
}

// meter reads a file and tells at every tenth of it.
type meter struct {
	io.Reader
	name string
	size int64
	say  func(string)
	read int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	before := m.read * 10 / m.size
	m.read += int64(n)
	if tenths := m.read * 10 / m.size; tenths > before {
		m.say(fmt.Sprintf("%s: %d %% imported", m.name, tenths*10))
	}
	return n, err
}

// open returns the packed bytes, metered.
func (a archive) open() (*os.File, *meter, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel source: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("kernel source: %w", err)
	}
	return f, &meter{Reader: f, name: filepath.Base(a.path), size: max(info.Size(), 1), say: a.say}, nil
}

// importSource makes one root commit of all the files in an xz-compressed tar
// archive and puts branch on it. The archive goes into a pack file by file,
// without a work tree: git fast-import is fed while xz unpacks.
func (r repository) importSource(ctx context.Context, a archive, branch string, who signature, message string) error {
	file, packed, err := a.open()
	if err != nil {
		return err
	}
	defer file.Close()
	var xzSaid, gitSaid bytes.Buffer
	xz := command(ctx, "xz", "-T0", "-dc")
	xz.Stdin, xz.Stderr = packed, &xzSaid
	unpacked, err := xz.StdoutPipe()
	if err != nil {
		return fmt.Errorf("xz: %w", err)
	}
	git := r.command(ctx, nil, "fast-import", "--quiet", "--done", "--depth=0")
	git.Stderr = &gitSaid
	stream, err := git.StdinPipe()
	if err != nil {
		return fmt.Errorf("git fast-import: %w", err)
	}
	if err := xz.Start(); err != nil {
		return fmt.Errorf("xz: %w", err)
	}
	if err := git.Start(); err != nil {
		return errors.Join(fmt.Errorf("git fast-import: %w", err), unpacked.Close(), xz.Wait())
	}

	wrote := writeCommit(stream, unpacked, a.top, branch, who, message)
	// A reader that stops early ends xz by SIGPIPE, a stream without "done"
	// ends git: both exit by themselves.
	_ = unpacked.Close()
	_ = stream.Close()
	xzExit, gitExit := xz.Wait(), git.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case xzExit != nil && xzSaid.Len() > 0:
		return failed(ctx, xz, xzExit, xzSaid.String())
	case gitExit != nil && (wrote == nil || errors.Is(wrote, syscall.EPIPE)):
		return failed(ctx, git, gitExit, gitSaid.String())
	case wrote != nil:
		return blame.Errorf(blame.Infrastructure, "%s: %w", a.path, wrote)
	}
	return nil
}

// writeCommit translates a tar stream into the commit command of a
// git-fast-import(1) stream, and reads the archive to its very end.
func writeCommit(w io.Writer, unpacked io.Reader, top, branch string, who signature, message string) error {
	out := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprintf(out, "commit refs/heads/%s\nauthor %s\ncommitter %s\ndata %d\n%s\n",
		branch, who, who, len(message), message)
	entries := tar.NewReader(unpacked)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := writeEntry(out, top, header, entries); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, unpacked); err != nil {
		return err
	}
	fmt.Fprint(out, "\ndone\n") // bufio keeps the first error for Flush
	return out.Flush()
}

// writeEntry emits one file or symbolic link. Directories follow from the
// names; what git cannot hold is an error, so that nothing gets lost unseen.
func writeEntry(out *bufio.Writer, top string, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeDir || header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, below := strings.CutPrefix(path.Clean(header.Name), top+"/")
	if !below || !fs.ValidPath(name) || strings.ContainsAny(name, "\n\"") {
		return fmt.Errorf("%q: not a path below %s/", header.Name, top)
	}
	mode, size := "100644", header.Size
	switch {
	case header.Typeflag == tar.TypeSymlink:
		mode, size, content = "120000", int64(len(header.Linkname)), strings.NewReader(header.Linkname)
	case header.Typeflag != tar.TypeReg:
		return fmt.Errorf("%q: neither a file nor a symbolic link (tar type %q)", header.Name, header.Typeflag)
	case header.Mode&0o100 != 0:
		mode = "100755"
	}
	fmt.Fprintf(out, "M %s inline %s\ndata %d\n", mode, name, size)
	if _, err := io.Copy(out, content); err != nil {
		return err
	}
	return out.WriteByte('\n')
}
