package message

import (
	"encoding/json"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestRequestsOfOlderAgents: an agent of an older program reads what it always read.
func TestRequestsOfOlderAgents(t *testing.T) {
	who := process.ID{PID: 7, Start: 8}
	head := func(op string) link.Header { return link.Header{V: wire.Version, Op: op} }
	for want, r := range map[string]link.Request{
		`{"v":1,"op":"status"}`: &PlainRequest{Header: head(OpStatus)},
		`{"v":1,"op":"lock","beats":true}`: &PlainRequest{
			Header: link.Header{V: wire.Version, Op: OpLock, Beats: true}},
		`{"v":1,"op":"prepare","waits":true,"enrollment":"prod","client":{"pid":7,"start":8},"purpose":{"command":"kubectl"}}`: &SessionRequest{
			Header: link.Header{V: wire.Version, Op: OpPrepare, Waits: true}, Enrollment: "prod", Client: who,
			Purpose: hsm.Purpose{Command: "kubectl"}},
		`{"v":1,"op":"attend","client":{"pid":7,"start":8}}`: &AttendRequest{Header: head(OpAttend), Client: who},
		`{"v":1,"op":"front"}`:                               &PlainRequest{Header: head(OpRespond)},
	} {
		b, err := json.Marshal(r)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
	}
}
