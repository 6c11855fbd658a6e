"""ResourceQuotas: what the objects of a namespace count for, and the refusal of what would exceed a bound."""
