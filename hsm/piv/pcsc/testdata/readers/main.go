// Command readers tells how many smart card readers there are, or why they cannot be
// reached, each time that it reads a line.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

func main() {
	system := pcsc.New()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		readers, err := system.Readers()
		fmt.Println(len(readers), err)
	}
}
