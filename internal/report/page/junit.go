package page

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// The elements of JUnit's XML, as Jenkins and GitLab read them.
type (
	junitSuites struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suite   junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitProblem `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the results as JUnit's XML, with one test case for each run. What a run has
// printed is in an element of its own, apart from what BEE reports of it.
func (r *Results) JUnit(w io.Writer) error {
	suite := junitSuite{
		Name: named(r.Name), Tests: len(r.Cases), Failures: r.count(Failed), Errors: r.count(Errored) + r.count(Open), Skipped: r.count(Skipped),
		Time: inSeconds(r.Made.Sub(r.began())), Timestamp: r.began().UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"bee", named(r.Version)}},
	}
	if r.ID != "" {
		suite.Properties = append(suite.Properties, junitProperty{"array", named(r.ID)})
	}
	logs, explained := 0, 0
	for i := range r.Cases {
		c := &r.Cases[i]
		one := junitCase{Class: suite.Name, Name: named(c.Name), Time: inSeconds(c.Took)}
		problem := &junitProblem{Message: named(c.reason()), Type: named(c.Kind)}
		if c.Outcome != Passed && explained < mostExplained {
			problem.Message, problem.Text = c.reason(), c.explained()
			explained++
		}
		switch c.Outcome {
		case Failed:
			one.Failure = problem
		case Errored, Open:
			one.Error = problem
		case Skipped:
			one.Skipped = &junitProblem{Message: problem.Message}
		}
		if c.Outcome != Skipped && c.Log != "" && logs < MostLogs {
			one.Out = c.log()
			logs++
		}
		suite.Cases = append(suite.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(junitSuites{Suite: suite}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// explained is what BEE reports of a run that did not succeed.
func (r *Result) explained() string {
	text := named(r.Meaning) + "\n"
	if r.Message != "" {
		text += r.reason() + "\n"
	}
	if r.Remedy != "" {
		text += (&Result{Message: r.Remedy}).reason() + "\n"
	}
	if r.ID != "" {
		text += "run: " + named(r.ID) + "\n"
	}
	if r.Site != "" {
		text += "site: " + named(r.Site) + "\n"
	}
	return text
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(d, 0).Seconds()) }
