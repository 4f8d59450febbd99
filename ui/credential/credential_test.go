package credential

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
)

func TestNotCalledByKubectl(t *testing.T) {
	c := Command{Getenv: func(string) string { return "" }}
	if err := c.Answer(context.Background(), "prod"); !errors.Is(err, execcredential.ErrNoRequest) {
		t.Errorf("got %v", err)
	}
}
