package study

import (
	"context"
	"fmt"
	"math"
)

// Check is a condition of a right answer, over an output of the job. Exactly one of Regex
// and JQ is given.
type Check struct {
	Regex string `yaml:"regex"`
	JQ    string `yaml:"jq"`
	// Equals is the value that the regex's first group, or jq, has to have.
	Equals Value `yaml:"equals"`
	// Within is the relative difference that a number may have.
	Within Fraction `yaml:"within"`
	File   string   `yaml:"file"`
}

// Verify returns an error that says what is wrong with an output, or nil.
func (c *Check) Verify(ctx context.Context, text []byte) error {
	if c.JQ != "" {
		v, err := query(ctx, c.JQ, text)
		if err != nil {
			return err
		}
		if c.Equals == "" {
			if v == nil || v == false {
				return fmt.Errorf("jq %q is %v, want it to be true", c.JQ, v)
			}
			return nil
		}
		return c.equal("jq "+c.JQ, fmt.Sprint(v))
	}
	re, err := compile(c.Regex)
	if err != nil {
		return err
	}
	g := re.FindSubmatch(text)
	if g == nil {
		return fmt.Errorf("%q matches nothing%s", c.Regex, Ending(string(text)))
	}
	if c.Equals != "" && len(g) > 1 {
		return c.equal(fmt.Sprintf("%q", c.Regex), string(g[1]))
	}
	return nil
}

func (c *Check) equal(what, found string) error {
	want, numeric := c.Equals.Number()
	got, err := parseNumber(found)
	if numeric && err == nil {
		if !(math.Abs(got-want) <= float64(c.Within)*math.Abs(want)) {
			return fmt.Errorf("%s is %v, want %v within %v of it", what, got, want, float64(c.Within))
		}
		return nil
	}
	if found != string(c.Equals) {
		return fmt.Errorf("%s is %q, want %q", what, found, c.Equals)
	}
	return nil
}
