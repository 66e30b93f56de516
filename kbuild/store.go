package kbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The files of a kernel in the store.
const (
	imageFile     = "bzImage"
	systemMapFile = "System.map"
	configFile    = "config"
	logFile       = "build.log"
	manifestFile  = "manifest.json"
)

// store keeps built kernels, a directory each, named by key. A kernel that
// this process was given is held by a shared lock on its manifest, so that no
// process evicts it; the least recently used ones go first.
type store struct {
	dir   string
	limit int64 // bytes

	mu   sync.Mutex
	held map[string]*os.File // locked manifests by key
}

// manifest is what is written beside a kernel.
type manifest struct {
	Kernel
	ImageSHA256 string `json:"image_sha256"`
}

func openStore(dir string, limit int64) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("kbuild: store: %w", err)
	}
	return &store{dir: dir, limit: limit, held: map[string]*os.File{}}, nil
}

// load returns the kernel with the key and holds it. An image that is not what
// was stored is dropped: a rotten image must not become a verdict.
func (s *store) load(key string) (Kernel, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.dir, key)
	held, err := s.hold(key)
	if errors.Is(err, fs.ErrNotExist) {
		return Kernel{}, false, nil
	}
	if err != nil {
		return Kernel{}, false, fmt.Errorf("kbuild: store: %w", err)
	}
	var m manifest
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil {
		err = verify(filepath.Join(dir, imageFile), m.ImageSHA256)
	}
	if err != nil {
		delete(s.held, key)
		return Kernel{}, false, errors.Join(held.Close(), s.remove(key))
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return Kernel{}, false, fmt.Errorf("kbuild: store: %w", err)
	}
	return m.Kernel.in(dir), true, nil
}

// in returns the kernel with its paths in the directory.
func (k Kernel) in(dir string) Kernel {
	k.Image, k.SystemMap = filepath.Join(dir, imageFile), filepath.Join(dir, systemMapFile)
	k.Config, k.Log = filepath.Join(dir, configFile), filepath.Join(dir, logFile)
	return k
}

// hold locks the manifest of a kernel that is in the store.
func (s *store) hold(key string) (*os.File, error) {
	if f, ok := s.held[key]; ok {
		return f, nil
	}
	path := filepath.Join(s.dir, key, manifestFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) { // being evicted
			return nil, fs.ErrNotExist
		}
		return nil, err
	}
	if _, err := os.Stat(path); err != nil { // evicted between open and lock
		f.Close()
		return nil, err
	}
	s.held[key] = f
	return f, nil
}

// save copies a kernel's files, named by what they are called in the store,
// and returns the kernel as stored. A kernel is in the store as a whole or not
// at all, whatever happens.
func (s *store) save(k Kernel, files map[string]string) (Kernel, error) {
	tmp, err := os.MkdirTemp(s.dir, ".new-")
	if err != nil {
		return Kernel{}, fmt.Errorf("kbuild: store: %w", err)
	}
	defer os.RemoveAll(tmp)
	m := manifest{Kernel: k.in(filepath.Join(s.dir, k.Key))}
	for name, from := range files {
		sum, err := copyDurably(filepath.Join(tmp, name), from)
		if err != nil {
			return Kernel{}, fmt.Errorf("kbuild: store: %w", err)
		}
		if name == imageFile {
			m.ImageSHA256 = sum
		}
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = writeDurably(filepath.Join(tmp, manifestFile), append(data, '\n'))
	}
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err == nil {
		err = s.enter(tmp, k.Key)
	}
	if err != nil {
		return Kernel{}, fmt.Errorf("kbuild: store: %w", err)
	}
	return m.Kernel, s.evict()
}

// enter gives a finished directory its name and holds it. Where another
// process was faster, the kernels are the same and its one stays.
func (s *store) enter(tmp, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.Rename(tmp, filepath.Join(s.dir, key))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	_, err = s.hold(key)
	return err
}

// evict removes the least recently used kernels that nobody holds until the
// store is within its limit, and what a crash left half-written.
func (s *store) evict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("kbuild: store: %w", err)
	}
	type kept struct {
		key  string
		used time.Time
		size int64
	}
	var all []kept
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil { // evicted by another process
			continue
		}
		if strings.HasPrefix(e.Name(), ".") {
			if time.Since(info.ModTime()) > time.Hour {
				os.RemoveAll(filepath.Join(s.dir, e.Name()))
			}
			continue
		}
		k := kept{e.Name(), info.ModTime(), diskUse(filepath.Join(s.dir, e.Name()))}
		all, total = append(all, k), total+k.size
	}
	slices.SortFunc(all, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, k := range all {
		if total <= s.limit {
			break
		}
		if s.inUse(k.key) {
			continue
		}
		if err := s.remove(k.key); err != nil {
			return err
		}
		total -= k.size
	}
	return nil
}

// inUse reports whether some process, this one included, holds the kernel.
func (s *store) inUse(key string) bool {
	f, err := os.Open(filepath.Join(s.dir, key, manifestFile))
	if err != nil { // nobody can use it without one
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// remove takes a kernel out of the store at once, then deletes it.
func (s *store) remove(key string) error {
	gone, err := os.MkdirTemp(s.dir, ".old-")
	if err == nil {
		err = os.Rename(filepath.Join(s.dir, key), filepath.Join(gone, key))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kbuild: store: %w", err)
	}
	return os.RemoveAll(gone)
}

func diskUse(dir string) int64 {
	var total int64
	files, _ := os.ReadDir(dir) // vanished: 0
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

func verify(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s has the hash %s instead of %s", path, got, want)
	}
	return nil
}

// copyDurably copies a file and returns the SHA-256 of what it copied.
func copyDurably(to, from string) (string, error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	if err == nil {
		err = out.Sync()
	}
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, out.Close())
}
