//go:build !unix

package child

import (
	"errors"
	"os"
)

// Control: this system has no such children.
func Control() (*os.File, error) {
	return nil, errors.New("there are no worker processes on this system")
}
