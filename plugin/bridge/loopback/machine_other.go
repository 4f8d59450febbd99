//go:build !linux && !darwin && !windows

package loopback

// machineID is nil: nothing is known here that identifies the machine.
func machineID() []byte { return nil }
