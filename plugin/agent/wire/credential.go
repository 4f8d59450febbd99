package wire

import (
	"strconv"
	"time"
)

// Version goes up with every change that an older peer would misread.
const Version = 2

// OpCredential asks for a finished ExecCredential. The agent answers with it,
// in one frame of [KindSecret], if that needs nobody and nothing but what it
// has at hand; else with a JSON message, and the client has to prepare a session.
const OpCredential = "credential"

// Credential is the request of [OpCredential].
type Credential struct {
	V  int    `json:"v"`
	Op string `json:"op"`
	// Enrollment is what the arguments name, "" if they name none.
	Enrollment string `json:"enrollment,omitempty"`
	// ExecInfo is what the Kubernetes client asked, as it came (KEP-541), "" if it asked nothing.
	ExecInfo string `json:"execInfo"`
	// APIVersion is what the arguments name for a client that asked nothing.
	APIVersion string `json:"apiVersion,omitempty"`
	// Program is the one that asks, whose path may lead over symbolic links: an
	// agent of another lets it ask in full.
	Program Build `json:"program"`
}

// AppendJSON appends c to b. kubectl would wait a tenth of a millisecond for package encoding/json, which finds out by
// reflection what a Credential is.
func (c Credential) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"v":`...), int64(c.V), 10)
	b = appendString(append(b, `,"op":`...), c.Op)
	b = appendString(append(b, `,"enrollment":`...), c.Enrollment)
	b = appendString(append(b, `,"execInfo":`...), c.ExecInfo)
	b = appendString(append(b, `,"apiVersion":`...), c.APIVersion)
	b = appendString(append(b, `,"program":{"version":`...), c.Program.Version)
	b = appendString(append(b, `,"path":`...), c.Program.Path)
	b = strconv.AppendInt(append(b, `,"size":`...), c.Program.Size, 10)
	b = c.Program.Modified.AppendFormat(append(b, `,"modified":"`...), time.RFC3339Nano)
	return append(b, `"}}`...)
}

// appendString appends s as a JSON string (RFC 8259, section 7).
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
