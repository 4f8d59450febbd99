package agent

import (
	"io"
	"log/slog"
	"strconv"

	"golang.org/x/sys/unix"
)

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func itoa(n int) string { return strconv.Itoa(n) }

func getsid(pid int) (int, error) { return unix.Getsid(pid) }
