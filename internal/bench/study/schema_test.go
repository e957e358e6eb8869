package study

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemaAgreesWithTheParser holds both to the same good and bad files.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	toJSON := func(v any) any {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("study.json", toJSON(raw)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("study.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"whole": whole, "minimal": minimal(),
		"variable of a list":        minimal("image: i", `image: i, setup: ["a", "${n}"]`),
		"variable of a mapping":     minimal("rootless: {}", `rootless: {vm: {memory: "${n}G"}}`),
		"unknown key":               minimal("vary:", "varry:"),
		"unknown key of a job":      minimal("image:", "imgae:"),
		"unknown runtime":           minimal("runtime: native", "runtime: nativ"),
		"unknown direction":         minimal("better: lower", "better: loewr"),
		"no metrics":                strings.Split(minimal(), "metrics:")[0],
		"blocks that are none":      minimal("metrics:", "method: {blocks: 10-32}\nmetrics:"),
		"wrong kind of environment": minimal("rootless: {}", "rootless: {nodes: [many]}"),
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		_, parsed := Parse("s.yaml", []byte(text), "/")
		validated := schema.Validate(toJSON(v))
		if (parsed == nil) != (validated == nil) {
			t.Errorf("%s: the parser reports %v, the schema %v", name, parsed, validated)
		}
	}
}

// TestEveryKeyHasAText looks for the description of each key that only studies have.
func TestEveryKeyHasAText(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(at string, schema map[string]any)
	walk = func(at string, schema map[string]any) {
		for _, key := range []string{"items", "additionalProperties"} {
			if inner, is := schema[key].(map[string]any); is {
				walk(at+"[]", inner)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for key, p := range properties {
			if p := p.(map[string]any); p["description"] == nil {
				if p["anyOf"] == nil { // those are keys of a Beefile
					t.Errorf("keys.yaml does not explain %s.%s", at, key)
				}
			} else {
				walk(at+"."+key, p)
			}
		}
	}
	walk("", raw)
}
