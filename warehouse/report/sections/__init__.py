"""The sections of the report, one module each; a module that defines `SECTION` appears on the page."""
