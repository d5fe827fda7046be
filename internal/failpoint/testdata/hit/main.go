// Program hit passes a failpoint three times and counts aloud.
package main

import (
	"fmt"

	"github.com/go-outbox/outbox/internal/failpoint"
)

func main() {
	for i := range 3 {
		failpoint.Hit(failpoint.Stepped)
		fmt.Print(i + 1)
	}
}
