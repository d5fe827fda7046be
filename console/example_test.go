package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/store/memstore"
)

// An application mounts the console behind its own login.
func Example() {
	store, err := memstore.New(memstore.Config{Table: "shop_outbox"})
	if err != nil {
		panic(err)
	}
	c, err := console.New(console.Config{
		Path:   "/ops/outbox",
		Hosts:  []string{"shop.example.com"},
		Stores: []console.Source{{Name: "shop_outbox", Inspector: store, Operator: store}},
		Auth: console.Auth{Request: func(r *http.Request) *console.Principal {
			user := staff(r) // the application's own session
			if user == "" {
				return nil
			}
			return &console.Principal{Name: user, Role: console.RoleOperator}
		}},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	mux := http.NewServeMux()
	mux.Handle("/ops/outbox/", c)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://shop.example.com/ops/outbox/", nil))
	fmt.Println(answer.Code)
	// Output: 200
}

func staff(*http.Request) string { return "kim" }
