//go:build !amd64

package qemu

// hostTSC returns zero: under TCG on such a host the guest's counter has
// another source, and the guest calibrates it itself.
func hostTSC() int { return 0 }
