"""The federation: which cluster a job goes to, what is forwarded there, and what came back."""
