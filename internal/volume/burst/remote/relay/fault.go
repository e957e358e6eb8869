package relay

import (
	"encoding/xml"
	"io"
	"net/http"
	"regexp"

	"github.com/bee-hpc/bee/internal/core"
)

// fault is an error as S3 reports it.
type fault struct {
	XMLName xml.Name `xml:"Error"`
	Code    string   `xml:"Code"`
	Message string   `xml:"Message"`
}

var faultCode = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// readFault reads the error of an answer; no code: there is none.
func readFault(from io.Reader) fault {
	var f fault
	if xml.NewDecoder(from).Decode(&f) != nil || !faultCode.MatchString(f.Code) {
		return fault{}
	}
	f.Message = core.Printable(f.Message, 500)
	return f
}

// refuse answers by an error.
func refuse(w http.ResponseWriter, status int, code, message string) {
	raw, err := xml.Marshal(fault{Code: code, Message: message})
	if err != nil {
		raw = nil
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	core.BestEffort(w.Write(raw)) // the other end notices that it is not whole
}
