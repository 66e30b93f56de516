package debpkg

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Newest stands for the highest version there is.
const Newest = "newest"

// numbered is a version of the kernel, "6.12" or "6.12.118".
var numbered = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,5}){0,3}$`)

// isVersion tells a version, or Newest, from the name of a package.
func isVersion(name string) bool { return name == Newest || numbered.MatchString(name) }

// choose returns the highest release whose version begins with the numbers of
// want. Release candidates are left out: their own number is higher than that
// of the kernels they lead to.
func choose(all []release, want string) (release, bool) {
	var prefix []int
	if want != Newest {
		prefix = numbers(want)
	}
	var fit []release
	for _, r := range all {
		n := numbers(r.version)
		if !strings.Contains(r.version, "~rc") && len(n) >= len(prefix) && slices.Equal(n[:len(prefix)], prefix) {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return release{}, false
	}
	return slices.MaxFunc(fit, func(a, b release) int {
		return cmp.Or(slices.Compare(numbers(a.version), numbers(b.version)), strings.Compare(a.pkg, b.pkg))
	}), true
}

var digits = regexp.MustCompile(`[0-9]{1,9}`)

// numbers returns the numbers in a version in their order. Between releases of
// the kernel they decide; the letters are the distribution's.
func numbers(version string) []int {
	var all []int
	for _, text := range digits.FindAllString(version, -1) {
		n, err := strconv.Atoi(text)
		if err != nil { // nine digits always fit
			continue
		}
		all = append(all, n)
	}
	return all
}
