// Command readers tells how many problems there are with the readers, or why they
// cannot be reached, each time that it reads a line.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/hsm/piv"
)

func main() {
	d := piv.New(piv.Options{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		l, err := d.List(context.Background())
		fmt.Println(len(l.Problems), err)
	}
}
