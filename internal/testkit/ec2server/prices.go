package ec2server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PricingRegion is where the price list is served, for all regions.
const PricingRegion = "us-east-1"

// getProducts is the action of the price list.
const getProducts = "GetProducts"

// ListPrice is what an hour of a machine costs on demand, by its cores.
func ListPrice(cores int) float64 { return 0.05 * float64(cores) }

// product is a product of the price list: its attributes, by which it is found, and its price.
type product struct {
	attributes map[string]string
	hour       float64
}

// products has each type with another system and tenancy besides, which cost more, and a reservation that costs nothing.
func products() (all []product) {
	for _, t := range types() {
		for _, o := range []struct {
			system, tenancy, status string
			factor                  float64
		}{{"Windows", "Shared", "Used", 3}, {"Linux", "Dedicated", "Used", 2}, {"Linux", "Shared", "AllocatedCapacityReservation", 0}, {"Linux", "Shared", "Used", 1}} {
			all = append(all, product{map[string]string{
				"instanceType": t.Name, "regionCode": Region, "operatingSystem": o.system, "tenancy": o.tenancy, "capacitystatus": o.status,
				"preInstalledSw": "NA", "operation": "RunInstances", "servicecode": "AmazonEC2",
			}, ListPrice(t.Cores) * o.factor})
		}
	}
	return all
}

// text returns a product as the price list has it.
func (p product) text() string {
	raw, err := json.Marshal(map[string]any{
		"product": map[string]any{"productFamily": "Compute Instance", "attributes": p.attributes}, "serviceCode": "AmazonEC2",
		"terms": map[string]any{
			"OnDemand": map[string]any{"SKU.TERM": map[string]any{"priceDimensions": map[string]any{"SKU.TERM.RATE": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": strconv.FormatFloat(p.hour, 'f', 10, 64)},
			}}}},
			"Reserved": map[string]any{"SKU.OTHER": map[string]any{"priceDimensions": map[string]any{"SKU.OTHER.RATE": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": "0.0100000000"},
			}}}},
		},
	})
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return string(raw)
}

// prices answers the calls about prices.
type prices struct{ s *Server }

// serve answers a call to the price list, one product a page.
func (l prices) serve(w http.ResponseWriter, target string, body []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	refuse := func(code, format string, args ...any) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type": %q, "message": %q}`, "com.amazonaws.pricing#"+code, fmt.Sprintf(format, args...)) //nolint:errcheck // the client has gone
	}
	var q struct {
		ServiceCode, FormatVersion, NextToken string
		MaxResults                            int
		Filters                               []struct{ Type, Field, Value string }
	}
	denied := false
	l.s.locked(func() { l.s.calls[getProducts]++; denied = l.s.denied[getProducts] })
	switch err := json.Unmarshal(body, &q); {
	case denied:
		refuse("AccessDeniedException", "User is not authorized to perform: pricing:GetProducts")
		return
	case target != "AWSPriceListService."+getProducts:
		refuse("UnknownOperationException", "%s", target)
		return
	case err != nil || q.ServiceCode != "AmazonEC2" || q.FormatVersion != "aws_v1" || q.MaxResults < 1 || q.MaxResults > 100:
		refuse("InvalidParameterException", "%v in %s", err, body)
		return
	}
	var found []string
	for _, p := range products() {
		passes := true
		for _, f := range q.Filters {
			value, known := p.attributes[f.Field]
			if !known || f.Type != "TERM_MATCH" {
				refuse("InvalidParameterException", "the filter %+v is invalid", f)
				return
			}
			passes = passes && value == f.Value
		}
		if passes {
			found = append(found, p.text())
		}
	}
	at, _ := strconv.Atoi(q.NextToken) // 0, the first page, where there is none
	page := map[string]any{"FormatVersion": "aws_v1", "PriceList": found[min(at, len(found)):min(at+1, len(found))]}
	if at+1 < len(found) {
		page["NextToken"] = strconv.Itoa(at + 1)
	}
	json.NewEncoder(w).Encode(page) //nolint:errcheck // the client has gone
}

type spotItem struct {
	Type   string `xml:"instanceType"`
	Zone   string `xml:"availabilityZone"`
	System string `xml:"productDescription"`
	Price  string `xml:"spotPrice"`
	Since  string `xml:"timestamp"`
}

// spot answers with the present price of each type and zone, and with one of the day before.
func (prices) spot(params url.Values) (any, error) {
	if _, err := time.Parse(time.RFC3339, params.Get("StartTime")); err != nil || params.Get("ProductDescription.1") != "Linux/UNIX" {
		return nil, fail("InvalidParameterValue", "StartTime %q, ProductDescription %q", params.Get("StartTime"), params.Get("ProductDescription.1"))
	}
	var found []spotItem
	now := time.Now().UTC()
	for _, name := range list(params, "InstanceType") {
		for _, o := range offerings() {
			if o.Type == name {
				found = append(found,
					spotItem{name, o.Location, "Linux/UNIX", fmt.Sprint(SpotPrice), now.Add(-time.Hour).Format(time.RFC3339)},
					spotItem{name, o.Location, "Linux/UNIX", fmt.Sprint(2 * SpotPrice), now.Add(-24 * time.Hour).Format(time.RFC3339)})
			}
		}
	}
	return struct {
		bare
		Prices []spotItem `xml:"spotPriceHistorySet>item"`
	}{Prices: found}, nil
}
