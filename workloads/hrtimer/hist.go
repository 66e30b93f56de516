package hrtimer

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// entry is one line of a histogram.
type entry struct {
	keys  map[string]string
	count uint64
}

// histogram is what the kernel prints for a hist trigger
// (Documentation/trace/histogram.rst).
type histogram struct {
	entries []entry
	dropped uint64 // hits for which the map had no room
}

var entryLine = regexp.MustCompile(`^\{ (.*) \} hitcount: +(\d+)`)

// parseHist reads a hist file. It refuses one that is cut short: without its
// totals, or with entries that do not add up to them.
func parseHist(text string) (histogram, error) {
	var h histogram
	totals := map[string]uint64{}
	var sum uint64
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := entryLine.FindStringSubmatch(line); m != nil {
			count, err := strconv.ParseUint(m[2], 10, 64)
			if err != nil {
				return h, fmt.Errorf("hitcount: %w", err)
			}
			sum += count
			h.entries = append(h.entries, entry{parseKeys(m[1]), count})
			continue
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok || name != "Hits" && name != "Entries" && name != "Dropped" {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return h, fmt.Errorf("%s: %w", name, err)
		}
		totals[name] = n
	}
	if err := lines.Err(); err != nil {
		return h, err
	}
	if len(totals) != 3 {
		return h, fmt.Errorf("histogram without its totals")
	}
	h.dropped = totals["Dropped"]
	if h.dropped == 0 && (sum != totals["Hits"] || uint64(len(h.entries)) != totals["Entries"]) {
		return h, fmt.Errorf("histogram of %d entries and %d hits, its totals say %d and %d",
			len(h.entries), sum, totals["Entries"], totals["Hits"])
	}
	return h, nil
}

// parseKeys splits "hrtimer: 18379471555028720512, function: [...] hrtick".
// Addresses are decimal or hexadecimal, padded or not, and alike in the
// histograms of one boot: they stay text.
func parseKeys(text string) map[string]string {
	keys := map[string]string{}
	for _, field := range strings.Split(text, ", ") {
		name, value, _ := strings.Cut(field, ":")
		keys[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return keys
}

// function reduces a symbol to the function of the source, the same in every
// build: "[ffffffffc0000010] tick_fn.isra.0 [kvm]" is tick_fn.
func function(symbol string) string {
	if strings.HasPrefix(symbol, "[") {
		_, symbol, _ = strings.Cut(symbol, "]")
	}
	symbol, _, _ = strings.Cut(strings.TrimSpace(symbol), " ")
	if i := strings.IndexAny(symbol, ".+"); i > 0 { // .isra.0 .constprop.0 .llvm.1234 +0x0/0x40
		symbol = symbol[:i]
	}
	return symbol
}
