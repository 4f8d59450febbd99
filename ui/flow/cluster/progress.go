package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// Progress tells how far a cluster that is being built is (the trial's).
type Progress struct {
	Phase   string    `json:"phase"` // fetching, compiling, starting, ready, failed
	Done    int       `json:"done"`  // modules fetched, or packages compiled
	Total   int       `json:"total"`
	Message string    `json:"message"`
	Started time.Time `json:"started"`
}

// Ready tells whether the cluster can be used.
func (p Progress) Ready() bool { return p.Phase == "ready" }

// Failed tells whether it never will be.
func (p Progress) Failed() bool { return p.Phase == "failed" }

// maxProgress bounds the progress file's size in bytes.
const maxProgress = 64 << 10

// ReadProgress reads the one JSON object in the file at path. A file
// that does not exist yet is phase "starting".
func ReadProgress(path string) (Progress, error) {
	b, err := regularfile.Read(path, maxProgress)
	if errors.Is(err, fs.ErrNotExist) {
		return Progress{Phase: "starting"}, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("cluster progress: %w", err)
	}
	var p Progress
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("cluster progress: %s: %w", path, err)
	}
	return p, nil
}
