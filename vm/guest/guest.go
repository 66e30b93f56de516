// Package guest carries the program that runs in every guest as /init.
package guest

import (
	"embed"
	"errors"
	"io/fs"

	"bisectd/blame"
)

//go:generate env CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath "-ldflags=-s -w -buildid=" -o bin/init ./init

// bin holds init once it has been built; a fresh clone has .keep only, so that
// it compiles too.
//
//go:embed all:bin
var bin embed.FS

// Agent returns the agent, a static ELF program. A binary that was built
// without it is the infrastructure's blame.
func Agent() ([]byte, error) {
	agent, err := bin.ReadFile("bin/init")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blame.Errorf(blame.Infrastructure,
			"this bisectd was built without its guest agent; build it with \"make build\"")
	}
	return agent, err
}
