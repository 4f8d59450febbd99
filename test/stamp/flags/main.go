// Command flags prints the linker's flags of package stamp, on one line:
//
//	go run ./test/stamp/flags FOLDER MODULE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/test/stamp"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: flags FOLDER MODULE")
	}
	flags, err := stamp.Flags(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(flags, " "))
	return nil
}
