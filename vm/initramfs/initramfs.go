// Package initramfs writes the archive that a kernel unpacks as its first root
// file system: cpio in the newc format
// (Documentation/driver-api/early-userspace/buffer-format.rst). The same files
// give the same bytes.
//
// The archive is not compressed: under emulation the guest unpacks it slower
// than QEMU copies it.
package initramfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
)

// File is one entry of the archive. It is a symbolic link when Target is set,
// else a regular file with the content of the host's file Host, or Data when
// Host is empty.
type File struct {
	Path   string // absolute, in the guest
	Mode   uint32 // permission bits, set-user-id bits included
	Host   string // followed through symbolic links
	Data   []byte
	Target string
}

// maxFile is the longest file of the format, whose sizes have 32 bits.
const maxFile = 1<<32 - 1

// Device numbers of /dev/console (Documentation/admin-guide/devices.txt).
const consoleMajor, consoleMinor = 5, 1

// Write writes the archive with files, their parent directories, empty mount
// points for the usual file systems, and /dev/console, from which the kernel
// opens the first process's standard streams. Two files with one path, or a
// path that is not absolute and clean, are errors.
func Write(w io.Writer, files []File) error {
	entries, err := plan(files)
	if err != nil {
		return err
	}
	archive := newWriter(w)
	for i, e := range entries {
		if err := archive.add(e, int64(i+1)); err != nil {
			return fmt.Errorf("initramfs: %s: %w", e.name, err)
		}
	}
	return archive.Close()
}

// entry is a File, a directory or the console.
type entry struct {
	name string // without the leading slash, as the kernel's own tools write it
	mode cpio.FileMode
	file *File // nil for directories and the console
}

// plan returns the entries in the order of their names, so that each directory
// comes before what is in it.
func plan(files []File) ([]entry, error) {
	entries := map[string]entry{"dev/console": {name: "dev/console", mode: cpio.TypeChar | 0o600}}
	directories := []string{"dev", "proc", "run", "sys", "tmp"}
	for i, f := range files {
		name := strings.TrimPrefix(f.Path, "/")
		if name == f.Path || name == "" || path.Clean(f.Path) != f.Path {
			return nil, fmt.Errorf("initramfs: %q is not a clean absolute path", f.Path)
		}
		if _, taken := entries[name]; taken {
			return nil, fmt.Errorf("initramfs: %s: two files with one path", f.Path)
		}
		mode := cpio.FileMode(f.Mode&0o7777) | cpio.TypeReg
		if f.Target != "" {
			mode = cpio.TypeSymlink | 0o777
		}
		entries[name] = entry{name: name, mode: mode, file: &files[i]}
		directories = append(directories, path.Dir(name))
	}
	for _, dir := range directories {
		for ; dir != "."; dir = path.Dir(dir) {
			if e, taken := entries[dir]; taken && e.file != nil {
				return nil, fmt.Errorf("initramfs: %s: both a file and a directory", dir)
			}
			entries[dir] = entry{name: dir, mode: cpio.TypeDir | 0o755}
		}
	}
	sorted := make([]entry, 0, len(entries))
	for _, e := range entries {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return sorted, nil
}

// writer adds to the library's writer the parts of the format that it leaves
// out.
type writer struct {
	*cpio.Writer
	raw io.Writer
}

func newWriter(w io.Writer) *writer { return &writer{Writer: cpio.NewWriter(w), raw: w} }

func (w *writer) add(e entry, inode int64) error {
	if e.mode&cpio.ModeType == cpio.TypeChar {
		return w.addConsole(e, inode)
	}
	header := &cpio.Header{Name: e.name, Mode: e.mode, Inode: inode, Links: 1, ModTime: time.Unix(0, 0)}
	if e.file == nil {
		header.Links = 2
		return w.WriteHeader(header)
	}
	content, size, err := e.file.open()
	if err != nil {
		return err
	}
	defer content.Close()
	header.Size = size
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(w, content, size)
	if err == io.EOF {
		return fmt.Errorf("became shorter while it was read: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// addConsole writes the entry of a device node; the library has no field for
// its numbers.
func (w *writer) addConsole(e entry, inode int64) error {
	if err := w.Flush(); err != nil {
		return err
	}
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		inode, uint32(e.mode), 0 /* uid */, 0 /* gid */, 1 /* links */, 0 /* mtime */, 0, /* size */
		0, 0 /* device it is on */, consoleMajor, consoleMinor, len(e.name)+1, 0 /* checksum */, e.name)
	padding := strings.Repeat("\x00", -len(header)&3)
	_, err := io.WriteString(w.raw, header+padding)
	return err
}

// open returns the content of f and its size. A symbolic link's content is its
// target.
func (f *File) open() (io.ReadCloser, int64, error) {
	if f.Target != "" {
		return io.NopCloser(strings.NewReader(f.Target)), int64(len(f.Target)), nil
	}
	if f.Host == "" {
		return io.NopCloser(bytes.NewReader(f.Data)), int64(len(f.Data)), nil
	}
	host, err := os.Open(f.Host)
	if err != nil {
		return nil, 0, err
	}
	info, err := host.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Host)
	}
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s: %d bytes do not fit in a newc archive", f.Host, info.Size())
	}
	if err != nil {
		host.Close()
		return nil, 0, err
	}
	return host, info.Size(), nil
}
