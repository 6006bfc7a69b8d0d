// Package query builds PromQL and LogQL texts from structure.
package query
