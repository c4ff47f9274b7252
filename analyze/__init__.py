"""From lake to reports: query (`sql`), load and refine requests (`load`, `refine`), sum them (`profile`),
compare (`compare`, `methods`), explain, report, export, and watch."""
