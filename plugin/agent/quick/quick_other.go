//go:build !unix

package quick

// Credential: here the agent is always asked in full.
func Credential(_, _, _ string) []byte { return nil }
