package kbuild

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// ccacheEnvironment configures ccache(1) for kernels.
//
//   - NOHASHDIR: the directory a compiler runs in would be part of the key when
//     debug information is on, and O= directories differ.
//   - DEPEND: the list of headers that kbuild has the compiler write anyway
//     tells what an object depends on. Without it each miss costs one more run
//     of the preprocessor, a fifth of the whole.
//     It does not see what the assembler includes: see ccacheWrapper.
//   - COMPILERCHECK=content: a compiler is what it consists of, not its time
//     stamp. NAMESPACE stands for the assembler and the linker.
//   - CONFIGPATH: no configuration of the host's or the user's.
//   - SLOPPINESS: headers that make has just written are new, which is no
//     reason to distrust them; __DATE__ and __TIME__ do not matter.
//
// No BASEDIR: sources stay in one place, and rewritten paths would show in the
// image through __FILE__, from which the kernel strips the absolute one.
func ccacheEnvironment(dir, stats, namespace string, limit int64) []string {
	return []string{
		"CCACHE_DIR=" + dir,
		fmt.Sprintf("CCACHE_MAXSIZE=%dk", limit/1000),
		"CCACHE_CONFIGPATH=/dev/null",
		"CCACHE_NAMESPACE=" + namespace,
		"CCACHE_NOHASHDIR=1",
		"CCACHE_DEPEND=1",
		"CCACHE_COMPILERCHECK=content",
		"CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime",
		"CCACHE_STATSLOG=" + stats,
	}
}

// wrapper is the compiler that make is given: ccache, except for the sources
// that pull whole files in with .incbin. In depend mode ccache 4.7 does not
// notice those, and would serve an object with the file of another kernel in
// it: arch/x86/boot/compressed/piggy.S holds the kernel itself.
const wrapper = `#!/bin/sh
for a; do
	case $a in *.S | */configs.c | */kheaders.c) exec %[1]s "$@" ;; esac
done
exec ccache %[1]s "$@"
`

// ccacheWrapper returns the path of the wrapper for a compiler, below the
// cache directory.
func ccacheWrapper(cacheDir, compiler string) (string, error) {
	path := filepath.Join(cacheDir, "bin", "ccache-"+compiler)
	text := []byte(fmt.Sprintf(wrapper, compiler))
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, renameio.WriteFile(path, text, 0o755)
}

// ccacheHits counts the sources that ccache's log of results says were served
// from the cache: for each run a line "# SOURCE", then a counter a line. Runs
// without a source are the Makefiles trying what the compiler can do.
func ccacheHits(stats string) (int, error) {
	f, err := os.Open(stats)
	if os.IsNotExist(err) { // nothing was compiled
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	hits, counts := 0, false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if source, ok := strings.CutPrefix(line, "# "); ok {
			counts = source != "/dev/null" && source != "-"
		}
		if counts && (line == "direct_cache_hit" || line == "preprocessed_cache_hit") {
			hits++
		}
	}
	return hits, lines.Err()
}
