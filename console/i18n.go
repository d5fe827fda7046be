package console

import (
	"embed"
	"encoding/json"
	"fmt"
	"sync"
)

// languages are those of the console; the first is the one of the texts in the source.
var languages = []string{"en", "zh"}

//go:embed locales/*.json
var locales embed.FS

// chinese maps English texts to Chinese ones. A test finds those that are missing.
var chinese = sync.OnceValue(func() map[string]string {
	text, err := locales.ReadFile("locales/zh.json")
	if err != nil {
		panic(err) // it is embedded
	}
	var m map[string]string
	if err := json.Unmarshal(text, &m); err != nil {
		panic(err)
	}
	return m
})

func translate(lang, text string, args ...any) string {
	if lang == "zh" {
		if t, ok := chinese()[text]; ok {
			text = t
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}
