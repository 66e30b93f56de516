// Package configs holds data that is compiled into the program: fragments of
// kernel configurations, the patches of the demonstration and example jobs.
package configs

import (
	"embed"
	"path"
	"strings"
)

// FS holds fragments/NAME.config, demo/series.yaml with the patches that it
// names, and examples/NAME.yaml.
//
//go:embed fragments/*.config demo/*.patch demo/series.yaml examples/*.yaml
var FS embed.FS

// Fragment returns the configuration fragment that a job calls name, for
// instance "guest". The error satisfies errors.Is(err, fs.ErrNotExist) when
// there is none of that name.
func Fragment(name string) ([]byte, error) {
	return FS.ReadFile(path.Join("fragments", name+".config"))
}

// Fragments lists the names that Fragment knows, in alphabetical order.
func Fragments() []string {
	files, err := FS.ReadDir("fragments")
	if err != nil {
		panic(err) // it is compiled in
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".config"))
	}
	return names
}

// Series returns the description of the demonstration's history.
func Series() ([]byte, error) {
	return FS.ReadFile("demo/series.yaml")
}

// Patch returns a patch of the demonstration by the file name that the series
// uses for it.
func Patch(name string) ([]byte, error) {
	return FS.ReadFile(path.Join("demo", name))
}
