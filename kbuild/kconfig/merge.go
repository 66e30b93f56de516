package kconfig

import "fmt"

// Merge puts configurations on top of each other: the later one wins. A symbol
// that an earlier one requires stays required when a later one asks for the
// same value as an option.
func Merge(configs ...*Config) *Config {
	merged := &Config{settings: map[string]Setting{}}
	for _, c := range configs {
		for name, s := range c.settings {
			before, ok := merged.settings[name]
			if ok && !before.Optional && before.Value.Equal(s.Value) {
				s.Optional = false
			}
			merged.settings[name] = s
		}
	}
	return merged
}

// Mismatch is a symbol that came out otherwise than asked for.
type Mismatch struct {
	Setting       // what was asked
	Got     Value // what the final configuration has
}

// String says what was asked and what came out.
func (m Mismatch) String() string {
	return fmt.Sprintf("%s asked %s, got %s", m.Name, m.Value, m.Got)
}

// Check compares a final .config with what was asked for. The kernel's tools
// drop, without failing, a symbol that does not exist or whose dependencies
// are not met. Dropped are the required symbols that came out otherwise,
// lacking the optional ones, both in the order of their names.
func Check(final, asked *Config) (dropped, lacking []Mismatch) {
	for _, s := range asked.Settings() {
		got := final.Get(s.Name)
		if got.Equal(s.Value) {
			continue
		}
		m := Mismatch{Setting: s, Got: got}
		if s.Optional {
			lacking = append(lacking, m)
			continue
		}
		dropped = append(dropped, m)
	}
	return dropped, lacking
}
