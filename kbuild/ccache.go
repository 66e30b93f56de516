package kbuild

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// ccacheEnvironment configures ccache(1) for kernels.
//
//   - NOHASHDIR: the directory a compiler runs in would be part of the key when
//     debug information is on, and O= directories differ.
//   - DEPEND: the list of headers that kbuild has the compiler write anyway
//     tells what an object depends on. Without it each miss costs one more run
//     of the preprocessor, a fifth of the whole.
//   - COMPILERCHECK=content: a compiler is what it consists of, not its time
//     stamp.
//   - SLOPPINESS: headers that make has just written are new, which is no
//     reason to distrust them; __DATE__ and __TIME__ do not matter.
//
// No BASEDIR: sources stay in one place, and rewritten paths would show in the
// image through __FILE__, from which the kernel strips the absolute one.
func ccacheEnvironment(dir, stats string, limit int64) []string {
	return []string{
		"CCACHE_DIR=" + dir,
		fmt.Sprintf("CCACHE_MAXSIZE=%dk", limit/1000),
		"CCACHE_NOHASHDIR=1",
		"CCACHE_DEPEND=1",
		"CCACHE_COMPILERCHECK=content",
		"CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime",
		"CCACHE_STATSLOG=" + stats,
	}
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
