package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// ClusterProgress tells how far a cluster that is being built is (the trial's).
type ClusterProgress struct {
	Phase   string    `json:"phase"` // building, starting, ready, failed
	Done    int       `json:"done"`  // packages built
	Total   int       `json:"total"`
	Message string    `json:"message"`
	Started time.Time `json:"started"`
}

// Ready tells whether the cluster can be used.
func (p ClusterProgress) Ready() bool { return p.Phase == "ready" }

// Failed tells whether it never will be.
func (p ClusterProgress) Failed() bool { return p.Phase == "failed" }

// maxProgress bounds the progress file's size in bytes.
const maxProgress = 64 << 10

// ReadClusterProgress reads the one JSON object in the file at path. A file
// that does not exist yet is phase "starting".
func ReadClusterProgress(path string) (ClusterProgress, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ClusterProgress{Phase: "starting"}, nil
	}
	if err != nil {
		return ClusterProgress{}, fmt.Errorf("cluster progress: %w", err)
	}
	var p ClusterProgress
	if len(b) > maxProgress {
		return p, fmt.Errorf("cluster progress: %s is larger than %d bytes", path, maxProgress)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("cluster progress: %s: %w", path, err)
	}
	return p, nil
}
