package guest

import (
	"encoding/json"
	"io"

	"bisectd/vm/guest/proto"
	"bisectd/vm/initramfs"
)

// Initramfs writes what a guest starts from: the agent as /init, its job, and
// files.
func Initramfs(w io.Writer, agent []byte, job proto.Job, files []initramfs.File) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return initramfs.Write(w, append([]initramfs.File{
		{Path: "/init", Mode: 0o755, Data: agent},
		{Path: proto.JobPath, Mode: 0o644, Data: text},
	}, files...))
}
