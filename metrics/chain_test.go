package metrics_test

import (
	"reflect"
	"testing"

	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/relay"
)

func TestChainCallsEveryHookOfAllInOrder(t *testing.T) {
	var calls []string
	first, second := recorder(&calls, "first"), recorder(&calls, "second")
	chained := reflect.ValueOf(metrics.Chain(first, relay.Hooks{}, second))
	for i := range chained.NumField() {
		name, hook := chained.Type().Field(i).Name, chained.Field(i)
		if hook.IsNil() {
			t.Errorf("%s is not chained", name)
			continue
		}
		calls = nil
		hook.Call(zeros(hook.Type()))
		if len(calls) != 2 || calls[0] != "first "+name || calls[1] != "second "+name {
			t.Errorf("%s called %v", name, calls)
		}
	}
}

func TestAChainOfNothingIsNothing(t *testing.T) {
	if chained := reflect.ValueOf(metrics.Chain(relay.Hooks{}, relay.Hooks{})); !chained.IsZero() {
		t.Error("hooks that nobody has are set")
	}
}

func TestMetricsListenToEveryHook(t *testing.T) {
	hooks := reflect.ValueOf(metrics.New(metrics.Config{}).Hooks())
	for i := range hooks.NumField() {
		if hooks.Field(i).IsNil() {
			t.Errorf("nobody listens to %s", hooks.Type().Field(i).Name)
		}
	}
}

// recorder returns hooks that note their calls.
func recorder(calls *[]string, who string) relay.Hooks {
	var h relay.Hooks
	fields := reflect.ValueOf(&h).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		fields.Field(i).Set(reflect.MakeFunc(fields.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			*calls = append(*calls, who+" "+name)
			return nil
		}))
	}
	return h
}

func zeros(function reflect.Type) []reflect.Value {
	args := make([]reflect.Value, function.NumIn())
	for i := range args {
		args[i] = reflect.Zero(function.In(i))
	}
	return args
}
